/* Counting what runs without records. */
#include "frames.h"

#include "folding.h"

#include "core.h"
#include "describing.h"

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
    fold = (Fold){0};
    Py_XDECREF(exception);
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
        text_int(out, fold.visits - (fold.at == fold.header));
        text_literal(out, ",\"steps\":");
        text_int(out, fold.steps);
    }
    text_char(out, '}');
    record_end(start);
}
