/* What kind of thing the values of a type are (classes.py), once per type. */
#ifndef GROUNDBOX_KINDS_H
#define GROUNDBOX_KINDS_H

#include <Python.h>
#include <stdbool.h>

/* In the order of classes.py. */
enum told { LEAF, TUPLE, FROZENSET, METHOD, LIST, DICT, SET, OBJECT, CLASS_OBJECT, BYTES, ARRAY };

enum base {
    BASE_OTHER,
    BASE_INT,
    BASE_FLOAT,
    BASE_COMPLEX,
    BASE_STR,
    BASE_BYTES,
    BASE_BOOL,
    BASE_NONE,
    BASE_RANGE,
    BASE_FUNCTION,
    BASE_MODULE,
    BASE_LIST,
    BASE_DEQUE,
    BASE_DICT,
    BASE_ORDERED_DICT,
    BASE_OPAQUE,
};

typedef struct {
    PyObject *name;
    PyMemberDef *member;
} Slot;

typedef struct {
    PyTypeObject *type;
    /* The same in Python, for what is left to it. */
    PyObject *kind;
    enum told told;
    enum base base;
    bool own, has_dictionary;
    PyObject *word;
    /* JSON of the class's name, or NULL. */
    PyObject *name;
    int slot_count;
    Slot *slots;
} Kind;

typedef struct {
    size_t count, mask;
    Kind **table;
} KindTable;

/* EXACT of values.py: values that refer to nothing that is told. */
static inline bool is_leaf_type(PyTypeObject *type)
{
    return type == &PyLong_Type || type == &PyUnicode_Type || type == &PyFloat_Type || type == &PyBool_Type ||
           type == Py_TYPE(Py_None) || type == &PyFunction_Type || type == &PyBytes_Type || type == &PyComplex_Type ||
           type == &PyRange_Type || type == &PyModule_Type;
}

/* ATOMS of classes.py: values whose text never changes. */
static inline bool is_atom_type(PyTypeObject *type)
{
    return type == &PyLong_Type || type == &PyUnicode_Type || type == &PyFloat_Type || type == &PyBool_Type ||
           type == Py_TYPE(Py_None) || type == &PyBytes_Type || type == &PyComplex_Type;
}

/* NULL with an exception set if there is no memory, or what Python told makes no sense. */
Kind *kind_find(PyTypeObject *type);
bool kind_is_own(PyTypeObject *type);
void kinds_free(void);

#endif
