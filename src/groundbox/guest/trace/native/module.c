/* The module `_groundbox_tracer`: one recording at a time, opened, started, stopped, finished and closed.
 *
 * `bridge.py` is its only caller and hands over what is left to Python.
 */
#include "frames.h"

#include "core.h"
#include "effects.h"
#include "printing.h"
#include "recorder.h"
#include "tracer.h"

/* The order of the helpers in the tuple that `open` takes. */
enum { KINDS, KIND_OF, LEAF_TEXT, ARRAY_CONTENTS, SHOWN_ITEMS, LENGTH, THREAD_NAME, REPRS, DEQUE, CACHED, METHOD_WRAPPER, CONTAINERS, KNOWN, COUNT };

static bool is_open;
static PyObject *helpers;

static bool take_containers(PyObject *containers)
{
    Py_ssize_t count = PyTuple_Check(containers) ? PyTuple_GET_SIZE(containers) : 0;
    if (count > MOST_CONTAINERS)
        return PyErr_SetString(PyExc_ValueError, "there are too many container types"), false;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyTypeObject *type = (PyTypeObject *)PyTuple_GET_ITEM(containers, i);
        if (!PyType_Check((PyObject *)type))
            return PyErr_SetString(PyExc_TypeError, "a container is no type"), false;
        core.helpers.containers[i] = type;
        core.helpers.dict_count += (type->tp_flags & Py_TPFLAGS_DICT_SUBCLASS) != 0;
    }
    core.helpers.container_count = (int)count;
    return true;
}

static bool take_deque(PyObject *deque)
{
    core.helpers.deque = (PyTypeObject *)deque;
    for (PyGetSetDef *def = core.helpers.deque->tp_getset; def && def->name; def++)
        if (strcmp(def->name, "maxlen") == 0)
            core.helpers.deque_maxlen = def;
    if (!core.helpers.deque_maxlen || !core.helpers.deque->tp_iter || !core.helpers.deque->tp_as_sequence)
        return PyErr_SetString(PyExc_TypeError, "deque is not as expected"), false;
    return true;
}

static bool take_helpers(PyObject *given)
{
    if (!PyTuple_Check(given) || PyTuple_GET_SIZE(given) != COUNT)
        return PyErr_Format(PyExc_TypeError, "expected a tuple of %d helpers", COUNT), false;
    PyObject *const *of = ((PyTupleObject *)given)->ob_item;
    if (!PyType_Check(of[DEQUE]) || !PyType_Check(of[CACHED]) || !PyDict_Check(of[REPRS]) || !PyDict_Check(of[KNOWN]))
        return PyErr_SetString(PyExc_TypeError, "a helper is of a wrong type"), false;
    core.helpers = (Helpers){
        .kinds = of[KINDS],
        .kind_of = of[KIND_OF],
        .leaf = of[LEAF_TEXT],
        .array = of[ARRAY_CONTENTS],
        .shown_items = of[SHOWN_ITEMS],
        .length = of[LENGTH],
        .thread_name = of[THREAD_NAME],
        .standard_reprs = of[REPRS],
        .cached = (PyTypeObject *)of[CACHED],
        .method_wrapper = (PyTypeObject *)of[METHOD_WRAPPER],
    };
    helpers = Py_NewRef(given);
    return take_deque(of[DEQUE]) && take_containers(of[CONTAINERS]) && known_open(of[KNOWN]);
}

static void close_all(void)
{
    PyObject *given = helpers;
    recorder_close();
    heap_close(&core.heap);
    kinds_free();
    known_close();
    plan_free(&core.plan);
    memory_release(&core.memory);
    text_free(&core.text);
    Py_CLEAR(core.module_name);
    Py_CLEAR(core.foreign);
    helpers = NULL;
    is_open = false;
    Py_XDECREF(given);
}

static bool open_all(PyObject *program, PyObject *buffer, PyObject *given, long long soft_events, long long max_events)
{
    if (!take_helpers(given) || !plan_read(&core.plan, program) || !memory_open(&core.memory, buffer, max_events))
        return false;
    if (heap_open(&core.heap) && recorder_open(soft_events))
        return true;
    PyErr_NoMemory();
    return false;
}

static PyObject *module_open(PyObject *self, PyObject *args)
{
    PyObject *program, *buffer, *given;
    long long soft_events, max_events;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOLL:open", &program, &buffer, &given, &soft_events, &max_events))
        return NULL;
    if (is_open)
        return PyErr_SetString(PyExc_RuntimeError, "another recording is open"), NULL;
    core = (Core){0};
    if (!open_all(program, buffer, given, soft_events, max_events)) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        close_all();
        PyErr_Restore(type, value, traceback);
        return NULL;
    }
    is_open = true;
    Py_RETURN_NONE;
}

static bool need_open(void)
{
    if (!is_open)
        PyErr_SetString(PyExc_RuntimeError, "no recording is open");
    return is_open;
}

static PyObject *module_start(PyObject *self, PyObject *nothing)
{
    (void)self, (void)nothing;
    if (!need_open())
        return NULL;
    tracer_start();
    Py_RETURN_NONE;
}

static PyObject *module_stop(PyObject *self, PyObject *nothing)
{
    (void)self, (void)nothing;
    return PyBool_FromLong(tracer_stop());
}

static PyObject *module_printed(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    (void)self;
    if (count != 2 || !PyLong_Check(args[0]) || !PyUnicode_Check(args[1]))
        return PyErr_SetString(PyExc_TypeError, "printed takes the number of a stream and a string"), NULL;
    if (is_open)
        printed_add((int)PyLong_AsLong(args[0]), args[1]);
    Py_RETURN_NONE;
}

static PyObject *module_lost(PyObject *self, PyObject *why)
{
    (void)self;
    if (!PyUnicode_Check(why))
        return PyErr_SetString(PyExc_TypeError, "the reason is no string"), NULL;
    if (is_open)
        recorder_lost(why);
    Py_RETURN_NONE;
}

static PyObject *module_finish(PyObject *self, PyObject *ended)
{
    (void)self;
    if (is_open) {
        recorder_finish(ended == Py_True);
        close_all();
    }
    Py_RETURN_NONE;
}

static PyObject *module_abandon(PyObject *self, PyObject *nothing)
{
    (void)self, (void)nothing;
    core.memory.closed = true;
    tracer_stop();
    Py_RETURN_NONE;
}

#if PY_VERSION_HEX < 0x030C0000
static PyObject *module_adopt(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    (void)self;
    if (count == 3 && PyFrame_Check(args[0]) && is_open)
        tracer_adopt((PyFrameObject *)args[0]);
    Py_RETURN_NONE;
}
#endif

static PyMethodDef methods[] = {
    {"open", module_open, METH_VARARGS, "open(program, buffer, helpers, soft_events, max_events)"},
    {"start", module_start, METH_NOARGS, "Record from now on; events of sys.monitoring are asked for before."},
    {"stop", module_stop, METH_NOARGS, "Trace no more; False if somebody else stopped it before."},
    {"printed", (PyCFunction)(void (*)(void))module_printed, METH_FASTCALL, "printed(stream, text)"},
    {"lost", module_lost, METH_O, "Write a `lost` record."},
    {"finish", module_finish, METH_O, "Write what is left, and `end` if the program has ended; close."},
    {"abandon", module_abandon, METH_NOARGS, "Never write again: this is another process."},
#if PY_VERSION_HEX < 0x030C0000
    {"adopt", (PyCFunction)(void (*)(void))module_adopt, METH_FASTCALL, "The first trace function of a new thread."},
#endif
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_groundbox_tracer", "The native recorder of traces.", -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__groundbox_tracer(void)
{
    PyObject *module = PyModule_Create(&definition);
#if PY_VERSION_HEX >= 0x030C0000
    if (module && (!monitoring_init() || PyModule_AddFunctions(module, monitoring_methods) < 0))
        Py_CLEAR(module);
#endif
    return module;
}
