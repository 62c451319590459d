/* The interpreter's events.
 *
 * A 'return' event says neither whether the frame returned nor whether it waits; the instruction that it is at does.
 * Events come from all threads. One thread at a time is in the recorder: its state is protected by the interpreter's
 * lock, but Python that the recorder calls, and finalizers of what it drops, may hand that lock on.
 */
#include "frames.h"

#include "tracer.h"

#include <time.h>

#include "core.h"
#include "folding.h"
#include "recorder.h"

static struct {
    bool running;
    /* The recorder is at work, in the thread `owner`. */
    bool busy;
    unsigned long owner;
} tracer;

static int on_event(PyObject *nothing, PyFrameObject *frame, int event, PyObject *argument);

static void leave(void) { tracer.busy = false; }

/* Waits while another thread is in the recorder. False: the recorder itself led here, or recording is over. */
static bool enter(void)
{
    unsigned long self = PyThread_get_thread_ident();
    while (tracer.busy) {
        if (tracer.owner == self)
            return false;
        Py_BEGIN_ALLOW_THREADS
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
        Py_END_ALLOW_THREADS
    }
    tracer.busy = tracer.running;
    tracer.owner = self;
    return tracer.running;
}

static void trace_this_thread_no_more(void)
{
    if (is_traced_by(on_event))
        PyEval_SetTrace(NULL, NULL);
}

static void trace_no_thread_more(void)
{
#if PY_VERSION_HEX >= 0x030C0000
    PyEval_SetTraceAllThreads(NULL, NULL);
#else
    trace_this_thread_no_more();
#endif
}

/* Something went wrong in the recorder, or the buffer is full: a `lost` record says so, and tracing stops. */
static int give_up(void)
{
    PyObject *why = core.memory.closed ? NULL
                    : core.foreign     ? PyUnicode_FromString("a signal interrupted the tracer")
                                       : PyUnicode_FromFormat("the tracer failed: %s", core.failure);
    if (why)
        recorder_lost(why);
    else
        PyErr_Clear();
    Py_XDECREF(why);
    fold_drop();
    states_clear();
    tracer.running = false;
    /* An audit hook tells of this as if the program did it, so it is done only when nothing is recorded any more. */
    if (core.memory.closed)
        trace_no_thread_more();
    PyObject *foreign = core.foreign;
    core.foreign = NULL;
    if (!foreign)
        return 0;
    PyErr_SetObject((PyObject *)Py_TYPE(foreign), foreign);
    Py_DECREF(foreign);
    return -1;
}

static void on_call(PyFrameObject *frame, Code *code)
{
    bool starts = code->kind != GENERATOR || has_mark(code, PyFrame_GetLasti(frame), MARK_START);
    State *state = starts ? NULL : state_of(frame, code);
    if (fold.going)
        fold.calls += starts;
    else if (!state)
        recorder_called(frame, code);
    else
        recorder_resumed(frame, state);
}

static void on_line(PyFrameObject *frame, Code *code)
{
    int number = PyFrame_GetLineNumber(frame);
    const Line *line = plan_line(code, number);
    if ((line->hidden || line->hidden_units) && is_hidden_at(code, line, PyFrame_GetLasti(frame)))
        return;
    if (fold.going) {
        fold.steps++;
        if (fold.frame != frame || fold_goes_on(number))
            return;
        recorder_end_fold(frame, fold.state);
    }
    State *state = state_of(frame, code);
    if (!state)
        return;
    state->raised_at = -1;
    recorder_line(frame, state, number);
}

static void on_exception(PyFrameObject *frame, Code *code, PyObject *argument)
{
    State *state = state_of(frame, code);
    if (!state || !argument || !PyTuple_Check(argument) || PyTuple_GET_SIZE(argument) != 3)
        return;
    PyObject *exception = PyTuple_GET_ITEM(argument, 1);
    int offset = PyFrame_GetLasti(frame);
    if (!PyExceptionInstance_Check(exception))
        return;
    state->raised_at = offset;
    if (!fold.going)
        recorder_raised(frame, state, exception, offset);
    else if (fold.frame == frame)
        fold_raised(exception, offset);
}

static void on_return(PyFrameObject *frame, Code *code, PyObject *value)
{
    State *state = state_of(frame, code);
    if (!state)
        return;
    int offset = PyFrame_GetLasti(frame);
    enum leaving how = exit_at(code, offset);
    bool unwinds = how == NOT_AN_EXIT || ((!value || value == Py_None) && state->raised_at == offset);
    if (fold.going) {
        if (fold.frame != frame) {
            if (unwinds || how != YIELDS)
                state_remove(frame);
            return;
        }
        if (how == YIELDS && !unwinds) {
            recorder_gives(frame, state, value ? value : Py_None);
            return;
        }
        recorder_end_fold(frame, state);
    }
    if (unwinds)
        recorder_unwound(frame, state);
    else if (how == YIELDS)
        recorder_yielded(frame, state, value ? value : Py_None);
    else
        recorder_returned(frame, state, value ? value : Py_None);
}

/* Whether the event is of a frame inside a fold, and only counted: this calls nothing, and leaves an exception be. */
static bool counted(PyFrameObject *frame, Code *code, int event)
{
    if (!fold.going || tracer.busy || !tracer.running || fold.frame == frame)
        return false;
    if (event == PyTrace_LINE || event == PyTrace_CALL) {
        if (event == PyTrace_LINE)
            on_line(frame, code);
        else
            on_call(frame, code);
        return true;
    }
    return !state_of(frame, code);
}

static void dispatch(PyFrameObject *frame, Code *code, int event, PyObject *argument)
{
    if (event == PyTrace_LINE)
        on_line(frame, code);
    else if (event == PyTrace_CALL)
        on_call(frame, code);
    else if (event == PyTrace_RETURN)
        on_return(frame, code, argument);
    else if (event == PyTrace_EXCEPTION)
        on_exception(frame, code, argument);
}

static int on_event(PyObject *nothing, PyFrameObject *frame, int event, PyObject *argument)
{
    (void)nothing;
    if (!tracer.running) {
        if (core.memory.closed)
            trace_this_thread_no_more();
        return 0;
    }
    Code *code = plan_of(&core.plan, frame_code(frame));
    if (!code || code->kind == TRANSPARENT) {
        /* Lines of library code make no events then. */
        if (event == PyTrace_CALL)
            frame->f_trace_lines = 0;
        return 0;
    }
    if (counted(frame, code, event) || !enter())
        return 0;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    dispatch(frame, code, event, argument);
    int result = core.failure || core.foreign || core.memory.closed ? give_up() : 0;
    leave();
    if (result < 0) {
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
    } else {
        PyErr_Restore(type, value, traceback);
    }
    return result;
}

void tracer_adopt(PyFrameObject *frame)
{
    if (!tracer.running)
        return;
    swap_trace_function(on_event);
    on_event(NULL, frame, PyTrace_CALL, Py_None);
}

void tracer_start(void)
{
    tracer.running = true;
    tracer.busy = false;
#if PY_VERSION_HEX >= 0x030C0000
    PyEval_SetTraceAllThreads(on_event, NULL);
#endif
    PyEval_SetTrace(on_event, NULL);
}

bool tracer_stop(void)
{
    bool intact = !tracer.running || is_traced_by(on_event);
    /* Nobody is left in the recorder when this is over, and nobody comes. */
    if (enter())
        leave();
    tracer.running = false;
    trace_no_thread_more();
    return intact;
}
