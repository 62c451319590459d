// The editor of the console: CodeMirror with what a cell needs, and nothing else. Bundled by build.sh.

import {autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap} from "@codemirror/autocomplete";
import {defaultKeymap, history, historyKeymap, indentWithTab} from "@codemirror/commands";
import {javascript} from "@codemirror/lang-javascript";
import {python} from "@codemirror/lang-python";
import {PostgreSQL, sql} from "@codemirror/lang-sql";
import {bracketMatching, indentOnInput, indentUnit, StreamLanguage, syntaxHighlighting} from "@codemirror/language";
import {shell} from "@codemirror/legacy-modes/mode/shell";
import {Compartment, EditorState, Prec} from "@codemirror/state";
import {
  crosshairCursor, drawSelection, EditorView, highlightActiveLine, highlightSpecialChars, keymap, lineNumbers,
  placeholder, rectangularSelection,
} from "@codemirror/view";
import {classHighlighter, highlightCode} from "@lezer/highlight";

const LANGUAGES = {
  python: () => python(),
  sql: () => sql({dialect: PostgreSQL}),
  javascript: () => javascript(),
  shell: () => StreamLanguage.define(shell),
};

/**
 * An editor inside `parent`.
 *
 * `nonce` is that of the page's style-src. `keys` are bindings of CodeMirror that come before all others; of
 * `attributes` those of the element that is written in. Tab indents; after Escape it goes on to the next control.
 */
export function createEditor({parent, nonce, keys = [], attributes = {}, hint = "", onChange = () => {}}) {
  const language = new Compartment();
  const view = new EditorView({
    parent,
    state: EditorState.create({
      extensions: [
        EditorView.cspNonce.of(nonce),
        Prec.highest(keymap.of(keys)),
        lineNumbers(),
        history(),
        drawSelection(),
        highlightSpecialChars(),
        indentUnit.of("    "),
        EditorState.allowMultipleSelections.of(true),
        indentOnInput(),
        bracketMatching(),
        closeBrackets(),
        autocompletion(),
        rectangularSelection(),
        crosshairCursor(),
        highlightActiveLine(),
        syntaxHighlighting(classHighlighter),
        placeholder(hint),
        EditorView.contentAttributes.of(attributes),
        EditorView.updateListener.of((update) => update.docChanged && onChange()),
        language.of([]),
        keymap.of([...closeBracketsKeymap, ...completionKeymap, ...defaultKeymap, ...historyKeymap, indentWithTab]),
      ],
    }),
  });
  return {
    view,
    get text() {
      return view.state.doc.toString();
    },
    set text(text) {
      view.dispatch({changes: {from: 0, to: view.state.doc.length, insert: text}, selection: {anchor: text.length}});
    },
    get selectedText() {
      const {from, to} = view.state.selection.main;
      return view.state.sliceDoc(from, to);
    },
    speak(name) {
      view.dispatch({effects: language.reconfigure(LANGUAGES[name]?.() ?? [])});
    },
    focus() {
      view.focus();
    },
  };
}

/** Pieces of a source as `[text, classes]`, coloured as the editor does it. */
export function highlight(source, name) {
  const support = LANGUAGES[name]?.();
  const language = support?.language ?? support;
  if (!language) return [[source, ""]];
  const pieces = [];
  highlightCode(
    source, language.parser.parse(source), classHighlighter,
    (text, classes) => pieces.push([text, classes]), () => pieces.push(["\n", ""]),
  );
  return pieces;
}
