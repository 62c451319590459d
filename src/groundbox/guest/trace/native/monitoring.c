/* The interpreter's events from 3.12 on, by sys.monitoring.
 *
 * All are asked for everywhere, and switched off one by one where library code makes them, so that it soon runs at full
 * speed. To ask for those of the program's code objects alone would be cheaper, but then a program could switch them off
 * for a while and nobody would know: what is asked for everywhere has a version that counts. A jump backwards within one
 * line begins that line anew, as it does for trace functions. Lines and jumps inside inlined comprehensions are switched
 * off where they are met, and so is all that can be when recording is over.
 *
 * No exception is on its way when the interpreter calls, and it calls nobody while one of these functions works.
 */
#include "frames.h"

#include "tracer.h"

#if PY_VERSION_HEX >= 0x030C0000

#include "core.h"
#include "folding.h"
#include "recorder.h"

typedef struct {
    Code *code;
    PyFrameObject *frame;
    int offset, number;
    /* What is returned or given, or the exception. */
    PyObject *value;
} Event;

typedef void (*Handler)(const Event *event);

static PyObject *disable;
static uint64_t version;

bool monitoring_init(void)
{
    PyObject *monitoring = PySys_GetObject("monitoring");
    if (!disable && monitoring)
        disable = PyObject_GetAttrString(monitoring, "DISABLE");
    return disable;
}

/* bridge.py asks for the events before this, and gives them back. */
void events_begin(void) { version = monitoring_version(); }

bool events_are_ours(void) { return monitoring_version() == version; }

void events_end(void) {}

/* The code object that an event is of, or NULL if it is none that is recorded; and what is returned then. */
static inline PyObject *code_of(PyObject *given, Code **code)
{
    *code = tracer.running ? plan_of(&core.plan, (PyCodeObject *)given) : NULL;
    if (*code && (*code)->kind == TRANSPARENT)
        *code = NULL;
    return disable;
}

static inline int number_of(PyObject *given)
{
    PyLongObject *number = (PyLongObject *)given;
    return PyUnstable_Long_IsCompact(number) ? (int)PyUnstable_Long_CompactValue(number) : (int)PyLong_AsLong(given);
}

/* Whether a fold goes on that nobody works at. */
static inline bool only_counts(void) { return fold.going && !tracer.busy; }

static inline bool is_in_folded_frame(const Code *code)
{
    return code == fold.state->code && activation_frame(current_activation()) == fold.frame;
}

static PyObject *handle(Handler handler, Event event)
{
    if (!tracer_enter())
        return Py_None;
    event.frame = PyEval_GetFrame();
    if (event.frame)
        handler(&event);
    else
        core_fail("there is no memory");
    int result = tracer_end_of_event();
    if (!result && PyErr_Occurred())
        PyErr_Clear();
    return result ? NULL : Py_None;
}

static void starts(const Event *event)
{
    if (fold.going)
        fold.calls++;
    else
        recorder_called(event->frame, event->code);
}

static inline PyObject *on_start(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Code *code;
    PyObject *result = code_of(args[0], &code);
    (void)self, (void)count;
    if (!code)
        return result;
    if (!only_counts())
        return handle(starts, (Event){.code = code});
    fold.calls++;
    return Py_None;
}

static void goes_on(const Event *event)
{
    if (fold.going)
        return;
    State *state = state_of(event->frame, event->code);
    if (state)
        recorder_resumed(event->frame, state);
    else
        recorder_called(event->frame, event->code);
}

static inline PyObject *on_resume(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Code *code;
    PyObject *result = code_of(args[0], &code);
    (void)self, (void)count;
    return code ? handle(goes_on, (Event){.code = code}) : result;
}

static inline PyObject *on_throw(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Code *code;
    (void)self, (void)count;
    code_of(args[0], &code);
    return code && code->kind == GENERATOR ? handle(goes_on, (Event){.code = code}) : Py_None;
}

static void comes_to_line(const Event *event)
{
    if (fold.going) {
        fold.steps++; /* Taken back by a line outside. */
        if (fold.frame != event->frame || fold_goes_on(event->number)) {
            if (event->code->head_count)
                recorder_pass_line(event->frame, event->code, event->offset);
            return;
        }
        recorder_end_fold(event->frame, fold.state);
    }
    State *state = state_of(event->frame, event->code);
    if (state)
        recorder_line(event->frame, state, event->number, event->offset);
}

static inline PyObject *line_or_jump(Code *code, int number, int offset)
{
    if (only_counts() && !code->head_count) {
        bool inside = !is_in_folded_frame(code);
        if (!inside && !fold.exception && (fold.is_call || (number >= fold.first && number <= fold.last)))
            inside = fold_goes_on(number);
        if (inside) {
            fold.steps++;
            return Py_None;
        }
    }
    return handle(comes_to_line, (Event){.code = code, .offset = offset, .number = number});
}

static inline PyObject *on_line(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Code *code;
    PyObject *result = code_of(args[0], &code);
    (void)self, (void)count;
    if (!code)
        return result;
    int number = number_of(args[1]);
    if (code->hides && has_mark(code, current_offset(), MARK_HIDDEN))
        return disable;
    return line_or_jump(code, number, code->head_count ? current_offset() : -1);
}

static void comes_from(const Event *event)
{
    State *state = state_of(event->frame, event->code);
    if (state)
        state->source = event->number;
}

static inline PyObject *on_jump(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Code *code;
    PyObject *result = code_of(args[0], &code);
    (void)self, (void)count;
    if (!code || !PyLong_Check(args[2]))
        return result;
    int offset = number_of(args[1]), target = number_of(args[2]);
    int number = PyCode_Addr2Line(code->code, offset);
    const Source *source = code->source_count ? source_at(code, offset) : NULL;
    if (source)
        handle(comes_from, (Event){.code = code, .number = source->within});
    if (target > offset || number < 0 || number != PyCode_Addr2Line(code->code, target))
        return source ? Py_None : disable;
    if (has_mark(code, offset, MARK_HIDDEN))
        return disable;
    return line_or_jump(code, number, target);
}

static void branches(const Event *event)
{
    State *state = state_of(event->frame, event->code);
    const Branch *branch = branch_at(event->code, event->offset);
    if (state && branch)
        recorder_branched(event->frame, state, branch, event->number != branch->falls_to);
}

static inline PyObject *on_branch(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Code *code;
    PyObject *result = code_of(args[0], &code);
    (void)self, (void)count;
    if (!code || !PyLong_Check(args[2]))
        return result;
    int offset = number_of(args[1]), target = number_of(args[2]);
    const Branch *branch = branch_at(code, offset);
    if (!branch)
        return disable;
    /* Of what runs unrecorded, iterations of the folded frame and of generators are counted. */
    if (only_counts() && (branch->ways[target != branch->falls_to].does == NOTHING ||
                          (code->kind != GENERATOR && !is_in_folded_frame(code))))
        return Py_None;
    return handle(branches, (Event){.code = code, .offset = offset, .number = target});
}

/* The state of a frame that is being left, unless it is inside a fold. */
static State *leaving(const Event *event)
{
    State *state = state_of(event->frame, event->code);
    if (!state || !fold.going)
        return state;
    if (fold.frame != event->frame) {
        state_remove(event->frame);
        return NULL;
    }
    recorder_end_fold(event->frame, state);
    return state;
}

static void returns(const Event *event)
{
    State *state = leaving(event);
    if (state)
        recorder_returned(event->frame, state, event->value);
}

static void unwinds(const Event *event)
{
    State *state = leaving(event);
    if (state)
        recorder_unwound(event->frame, state);
}

static void yields(const Event *event)
{
    State *state = state_of(event->frame, event->code);
    if (!state)
        return;
    if (!fold.going)
        recorder_yielded(event->frame, state, event->value);
    else if (fold.frame == event->frame)
        recorder_gives(event->frame, state, event->value);
}

static void raises(const Event *event)
{
    State *state = state_of(event->frame, event->code);
    if (!state)
        return;
    if (!fold.going)
        recorder_raised(event->frame, state, event->value, event->offset);
    else if (fold.frame == event->frame)
        fold_raised(event->value, event->offset);
}

/* Of what is told with a value. A frame that began inside a fold is known to nobody, and often has no frame object. */
static PyObject *with_value(Handler handler, PyObject *const *args)
{
    Code *code;
    PyObject *result = code_of(args[0], &code);
    if (!code)
        return result;
    if (only_counts() && !activation_frame(current_activation()))
        return Py_None;
    return handle(handler, (Event){.code = code, .offset = number_of(args[1]), .value = args[2]});
}

static inline PyObject *on_return(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    (void)self, (void)count;
    return with_value(returns, args);
}

static inline PyObject *on_yield(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    (void)self, (void)count;
    return with_value(yields, args);
}

/* The two that cannot be switched off. */
static PyObject *everywhere(Handler handler, PyObject *const *args)
{
    PyObject *result = with_value(handler, args);
    return result == disable ? Py_None : result;
}

static inline PyObject *on_raise(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    (void)self, (void)count;
    return everywhere(raises, args);
}

static inline PyObject *on_unwind(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    (void)self, (void)count;
    return everywhere(unwinds, args);
}

#define CALLBACK(name, function, has_value)                                                                            \
    static PyObject *function##_event(PyObject *self, PyObject *const *args, Py_ssize_t count)                         \
    {                                                                                                                  \
        if (count != 2 + (has_value) || !PyCode_Check(args[0]) || !PyLong_Check(args[1]))                                                        \
            return PyErr_SetString(PyExc_TypeError, name " is called by sys.monitoring"), NULL;                        \
        return Py_XNewRef(function(self, args, count));                                                                \
    }

CALLBACK("py_start", on_start, 0)
CALLBACK("py_resume", on_resume, 0)
CALLBACK("py_throw", on_throw, 1)
CALLBACK("line", on_line, 0)
CALLBACK("jump", on_jump, 1)
CALLBACK("branch", on_branch, 1)
CALLBACK("py_return", on_return, 1)
CALLBACK("py_yield", on_yield, 1)
CALLBACK("raise", on_raise, 1)
CALLBACK("py_unwind", on_unwind, 1)

#define METHOD(name, function) {name, (PyCFunction)(void (*)(void))function##_event, METH_FASTCALL, NULL}

PyMethodDef monitoring_methods[] = {
    METHOD("py_start", on_start),   METHOD("py_resume", on_resume), METHOD("py_throw", on_throw),
    METHOD("line", on_line),        METHOD("jump", on_jump),        METHOD("branch", on_branch),
    METHOD("py_return", on_return), METHOD("py_yield", on_yield),   METHOD("raise", on_raise),
    METHOD("py_unwind", on_unwind),
    {NULL, NULL, 0, NULL},
};

#endif
