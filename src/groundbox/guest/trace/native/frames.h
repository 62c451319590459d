/* Reading frames by their layout, which is another in every minor version of CPython. The only file that knows them.
 *
 * It must be included first: the internal headers want to be announced before Python.h.
 */
#ifndef GROUNDBOX_FRAMES_H
#define GROUNDBOX_FRAMES_H

#define Py_BUILD_CORE 1
#include <Python.h>
#include <frameobject.h>

#include "internal/pycore_frame.h"
#include "internal/pycore_code.h"
#include "internal/pycore_interp.h"
#include "internal/pycore_pystate.h"
#undef Py_BUILD_CORE

#include <stdbool.h>

#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x030E0000
#error "this version of CPython is not supported"
#endif

typedef _PyInterpreterFrame Activation;

/* The code object of an activation, or NULL if it is one of the interpreter's own. */
static inline PyCodeObject *activation_code(const Activation *activation)
{
#if PY_VERSION_HEX >= 0x030D0000
    PyObject *found = activation->f_executable;
    return found && PyCode_Check(found) ? (PyCodeObject *)found : NULL;
#else
    return activation->f_code;
#endif
}

/* The frame object of an activation, if one was made. Borrowed. */
static inline PyFrameObject *activation_frame(const Activation *activation)
{
#if PY_VERSION_HEX >= 0x030C0000
    if (activation->owner == FRAME_OWNED_BY_CSTACK)
        return NULL;
#endif
    return activation->frame_obj;
}

static inline PyCodeObject *frame_code(const PyFrameObject *frame) { return activation_code(frame->f_frame); }

static inline PyObject *frame_globals(const PyFrameObject *frame) { return frame->f_frame->f_globals; }

static inline PyObject *frame_builtins(const PyFrameObject *frame) { return frame->f_frame->f_builtins; }

/* The namespace of a module or class body, or NULL. Borrowed. */
static inline PyObject *frame_space(const PyFrameObject *frame) { return frame->f_frame->f_locals; }

/* The value of a local variable, cell or free variable, or NULL. Borrowed. */
static inline PyObject *frame_slot(const PyFrameObject *frame, int slot)
{
    PyObject *value = frame->f_frame->localsplus[slot];
    if (!value || !PyCell_Check(value))
        return value;
    _PyLocals_Kind kind = _PyLocals_GetKind(frame_code(frame)->co_localspluskinds, slot);
    return kind & (CO_FAST_CELL | CO_FAST_FREE) ? PyCell_GET(value) : value;
}

#if PY_VERSION_HEX >= 0x030C0000
/* Whether a slot is a variable of an inlined comprehension in a module or class body. */
static inline bool is_hidden_slot(const PyFrameObject *frame, int slot)
{
    return (_PyLocals_GetKind(frame_code(frame)->co_localspluskinds, slot) & CO_FAST_HIDDEN) != 0;
}
#endif

#if PY_VERSION_HEX >= 0x030C0000
/* Of Python code that runs in this thread: the innermost one. */
static inline Activation *current_activation(void)
{
#if PY_VERSION_HEX >= 0x030D0000
    return PyThreadState_Get()->current_frame;
#else
    return PyThreadState_Get()->cframe->current_frame;
#endif
}

/* Another number after each change of what events are asked for everywhere, and never an old one. */
static inline uint64_t monitoring_version(void)
{
#if PY_VERSION_HEX >= 0x030D0000
    return _Py_atomic_load_uintptr_relaxed(&PyInterpreterState_Get()->ceval.instrumentation_version);
#else
    return PyInterpreterState_Get()->monitoring_version;
#endif
}

/* The instruction that it is at. */
static inline int current_offset(void)
{
    return _PyInterpreterFrame_LASTI(current_activation()) * (int)sizeof(_Py_CODEUNIT);
}
#endif

/* Room on the interpreter's stack for Python that is called when the program may have used up its own. */
static inline void add_recursion(int more)
{
    PyThreadState *state = PyThreadState_Get();
#if PY_VERSION_HEX >= 0x030C0000
    state->py_recursion_remaining += more;
#else
    state->recursion_remaining += more;
#endif
}

/* Puts `function` in the place of the trace function that this thread has, without a word to audit hooks. */
static inline void swap_trace_function(Py_tracefunc function)
{
    PyThreadState *state = PyThreadState_Get();
    PyObject *before = state->c_traceobj;
    state->c_tracefunc = function;
    state->c_traceobj = NULL;
    Py_XDECREF(before);
}

/* Whether this thread's trace function is still `function`. */
static inline bool is_traced_by(Py_tracefunc function) { return PyThreadState_Get()->c_tracefunc == function; }

#endif
