/* Counting what runs without records. */
#include "frames.h"

#include "folding.h"

#include "core.h"
#include "describing.h"
#include "effects.h"
#include "kinds.h"
#include "names.h"
#include "values.h"

enum { MOST_KEPT = 32, DEEPEST = 3 };

Fold fold;

void fold_begin(const PyFrameObject *frame, State *state, int header, const Line *loop)
{
    fold = (Fold){.going = true, .frame = frame, .state = state, .at = state->n, .header = header, .is_call = !loop};
    if (!loop)
        return;
    fold.first = loop->loop_first;
    fold.last = loop->loop_last;
    fold.steps = 1;
    fold_goes_on(header);
}

bool fold_goes_on(int number)
{
    if (!fold.is_call && (number < fold.first || number > fold.last)) {
        fold.steps--;
        return false;
    }
    fold.at = number;
    fold.began = false;
    fold.visits += number == fold.header;
    Py_CLEAR(fold.exception);
    return true;
}

bool is_quiet(const Code *code, PyObject *exception, int offset)
{
    return has_mark(code, offset, MARK_QUIET) &&
           PyType_IsSubtype(Py_TYPE(exception), (PyTypeObject *)PyExc_StopIteration);
}

void fold_raised(PyObject *exception, int offset)
{
    if (!is_quiet(fold.state->code, exception, offset))
        Py_XSETREF(fold.exception, Py_NewRef(exception));
}

void fold_drop(void)
{
    PyObject *exception = fold.exception;
    fold_wake();
    fold = (Fold){0};
    Py_XDECREF(exception);
}

/* Whether nothing waits for the end of a value but what the trace holds anyway. */
static bool may_keep(PyObject *value, int depth)
{
    if (is_atom_type(Py_TYPE(value)))
        return true;
    if (!PyTuple_CheckExact(value)) {
        const Kind *kind = kind_find(Py_TYPE(value));
        return kind && kind->told != LEAF && kind->told != TUPLE && kind->told != FROZENSET && kind->told != METHOD;
    }
    Py_ssize_t count = PyTuple_GET_SIZE(value);
    for (Py_ssize_t i = 0; i < count && count <= MOST_KEPT && depth < DEEPEST; i++)
        if (!may_keep(PyTuple_GET_ITEM(value, i), depth + 1))
            return false;
    return count <= MOST_KEPT && depth < DEEPEST;
}

static bool is_as_told(const Told *told, PyObject *value)
{
    const Kind *kind = kind_find(Py_TYPE(value));
    if (!told || !told->set || !kind || kind->told != LEAF)
        return false;
    size_t from = core.text.size;
    Py_INCREF(value);
    write_value(value, 0);
    size_t size = core.text.size - from;
    bool same = !core.text.broken && told->size == size && !memcmp(told_text(told), core.text.data + from, size);
    core.text.size = from;
    Py_DECREF(value);
    return same;
}

static bool keep(State *state, PyFrameObject *frame)
{
    const Names *names = &state->code->variables;
    for (int i = 0; i < names->count; i++) {
        const Name *name = &names->of[i];
        PyObject *value = name->where == GLOBAL ? NULL : value_of(name, state->code, frame);
        if (!value || may_keep(value, 0))
            fold.kept[i].value = Py_XNewRef(value);
        else if (!(fold.kept[i].same = is_as_told(told_of(state, name), value)))
            return false;
    }
    return true;
}

bool fold_rest(PyFrameObject *frame, PyObject *value)
{
    fold.began = fold.waits = true;
    Py_CLEAR(fold.exception);
    if (!may_keep(value, 0))
        return false;
    fold.kept = PyMem_RawCalloc((size_t)fold.state->code->variables.count + 1, sizeof *fold.kept);
    fold.rests = (PyFrameObject *)Py_NewRef(frame);
    fold.value = Py_NewRef(value);
    if (!fold.kept || !keep(fold.state, frame)) {
        fold_wake();
        fold.waits = true;
        return false;
    }
    fold.going = false;
    return true;
}

void fold_wake(void)
{
    if (!fold.rests)
        return;
    PyFrameObject *frame = fold.rests;
    Kept *kept = fold.kept;
    PyObject *value = fold.value;
    fold.going = true;
    fold.waits = false;
    fold.rests = NULL;
    fold.kept = NULL;
    fold.value = NULL;
    for (int i = 0; kept && i < fold.state->code->variables.count; i++)
        Py_XDECREF(kept[i].value);
    PyMem_RawFree(kept);
    Py_DECREF(value);
    Py_DECREF(frame);
}

void tell_fold(void)
{
    Text *out = &core.text;
    size_t start = record_begin();
    text_literal(out, "{\"k\":\"fold\",\"f\":");
    text_int(out, fold.state->f);
    text_literal(out, ",\"n\":");
    text_int(out, fold.header);
    if (fold.is_call) {
        text_literal(out, ",\"what\":\"call\",\"steps\":");
        text_int(out, fold.steps);
        text_literal(out, ",\"calls\":");
        text_int(out, fold.calls);
    } else {
        text_literal(out, ",\"what\":\"loop\",\"iterations\":");
        text_int(out, fold.visits - (fold.waits || (fold.at == fold.header && !fold.began)));
        text_literal(out, ",\"steps\":");
        text_int(out, fold.steps);
    }
    text_char(out, '}');
    record_end(start);
}
