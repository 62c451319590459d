/* Whether anything is recorded, and who is in the recorder.
 *
 * Events come from all threads. One thread at a time is in the recorder: its state is protected by the interpreter's
 * lock, but Python that the recorder calls, and finalizers of what it drops, may hand that lock on.
 */
#include "frames.h"

#include "tracer.h"

#include <time.h>

#include "core.h"
#include "folding.h"
#include "recorder.h"

Tracer tracer;

bool tracer_enter(void)
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
    if (core.memory.closed)
        events_end();
    PyObject *foreign = core.foreign;
    core.foreign = NULL;
    if (!foreign)
        return 0;
    PyErr_SetObject((PyObject *)Py_TYPE(foreign), foreign);
    Py_DECREF(foreign);
    return -1;
}

int tracer_end_of_event(void)
{
    int result = core.failure || core.foreign || core.memory.closed ? give_up() : 0;
    tracer.busy = false;
    return result;
}

void tracer_start(void)
{
    tracer.running = true;
    tracer.busy = false;
    events_begin();
}

bool tracer_stop(void)
{
    bool intact = !tracer.running || events_are_ours();
    /* Nobody is left in the recorder when this is over, and nobody comes. */
    if (tracer_enter())
        tracer.busy = false;
    tracer.running = false;
    events_end();
    return intact;
}
