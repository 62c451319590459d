/* The interpreter's events on 3.11, by a trace function.
 *
 * A 'return' event says neither whether the frame returned nor whether it waits; the instruction that it is at does.
 */
#include "frames.h"

#include "tracer.h"

#if PY_VERSION_HEX < 0x030C0000

#include "core.h"
#include "folding.h"
#include "recorder.h"

static int on_event(PyObject *nothing, PyFrameObject *frame, int event, PyObject *argument);

/* How many frames have a conditional jump as their last instruction: one, or more if a jump calls `__bool__`. */
static int waiting;

static void set_jump(State *state, const Branch *jump)
{
    waiting += (jump != NULL) - (state->jump != NULL);
    state->jump = jump;
}

static void on_call(PyFrameObject *frame, Code *code)
{
    bool starts = code->kind != GENERATOR || has_mark(code, PyFrame_GetLasti(frame), MARK_START);
    State *state = starts ? NULL : state_of(frame, code);
    if ((code->branch_count || code->source_count) && (!fold.going || state))
        frame->f_trace_opcodes = 1;
    if (fold.going)
        fold.calls += starts;
    else if (!state)
        recorder_called(frame, code);
    else
        recorder_resumed(frame, state);
}

/* The frame is at the instruction after a conditional jump. */
static void settle(PyFrameObject *frame, State *state, int offset)
{
    const Branch *branch = state->jump;
    if (branch_at(state->code, offset) == branch)
        return;
    set_jump(state, NULL);
    recorder_branched(frame, state, branch, offset != branch->falls_to);
}

static void on_instruction(PyFrameObject *frame, Code *code)
{
    State *state = state_of(frame, code);
    if (!state)
        return;
    int offset = PyFrame_GetLasti(frame);
    const Branch *branch = branch_at(code, offset);
    if (state->jump)
        settle(frame, state, offset);
    if (branch)
        set_jump(state, branch);
    const Source *source = code->source_count ? source_at(code, offset) : NULL;
    if (source)
        state->source = source->within;
}

static void on_line(PyFrameObject *frame, Code *code)
{
    int number = PyFrame_GetLineNumber(frame), offset = PyFrame_GetLasti(frame);
    State *state = state_of(frame, code);
    if (state && state->jump)
        settle(frame, state, offset);
    if (has_mark(code, offset, MARK_HIDDEN))
        return;
    if (fold.going) {
        fold.steps++;
        if (fold.frame != frame || fold_goes_on(number)) {
            if (code->head_count)
                recorder_pass_line(frame, code, offset);
            return;
        }
        recorder_end_fold(frame, fold.state);
    }
    if (!state)
        return;
    state->raised_at = -1;
    recorder_line(frame, state, number, offset);
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
    if (!is_quiet(code, exception, offset)) /* else a loop's jump is about to end it */
        set_jump(state, NULL);
    if (!fold.going)
        recorder_raised(frame, state, exception, offset);
    else if (fold.frame == frame)
        fold_raised(exception, offset);
}

static void tell_lines_off(void)
{
    PyObject *why = PyUnicode_FromString("the program switched lines of a frame off");
    if (why)
        recorder_lost(why);
    else
        PyErr_Clear();
    Py_XDECREF(why);
}

static void on_return(PyFrameObject *frame, Code *code, PyObject *value)
{
    State *state = state_of(frame, code);
    if (!state)
        return;
    if (!frame->f_trace_lines)
        tell_lines_off();
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

/* Whether nothing is to be done at an instruction: it is no conditional jump, and no frame waits to see where one went. */
static bool is_plain(PyFrameObject *frame, Code *code)
{
    int offset = PyFrame_GetLasti(frame);
    return waiting <= 0 && !branch_at(code, offset) && !(code->source_count && source_at(code, offset));
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
    else if (event == PyTrace_OPCODE)
        on_instruction(frame, code);
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
            events_end();
        return 0;
    }
    Code *code = plan_of(&core.plan, frame_code(frame));
    if (!code || code->kind == TRANSPARENT) {
        /* Lines of library code make no events then. */
        if (event == PyTrace_CALL)
            frame->f_trace_lines = 0;
        return 0;
    }
    if ((event == PyTrace_OPCODE && is_plain(frame, code)) || counted(frame, code, event) || !tracer_enter())
        return 0;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    dispatch(frame, code, event, argument);
    int result = tracer_end_of_event();
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

void events_begin(void)
{
    waiting = 0;
    PyEval_SetTrace(on_event, NULL);
}

bool events_are_ours(void) { return is_traced_by(on_event); }

/* An audit hook tells of this as if the program did it, so it is done only when nothing is recorded any more. */
void events_end(void)
{
    if (is_traced_by(on_event))
        PyEval_SetTrace(NULL, NULL);
}

#endif
