/* Integers as JSON text: plain below 2^53, then their digits as a string, over 400 digits their size and SHA-256. */
#include "numbers.h"

#include "compat.h"
#include "core.h"

enum { MANY_BITS = 1329, MANY_DIGITS = 400 };

static const long long SAFE_INTEGER = 1LL << 53;

static void write_digest(PyObject *value, size_t bits)
{
    Text *out = &core.text;
    size_t size = (bits + 7) / 8;
    unsigned char *bytes = PyMem_RawMalloc(size);
    PyObject *magnitude = PyLong_Type.tp_as_number->nb_absolute(value);
    int failed = !bytes || !magnitude;
#if PY_VERSION_HEX >= 0x030D0000
    failed = failed || _PyLong_AsByteArray((PyLongObject *)magnitude, bytes, size, 0, 0, 1);
#else
    failed = failed || _PyLong_AsByteArray((PyLongObject *)magnitude, bytes, size, 0, 0);
#endif
    if (failed) {
        core_fail("an integer could not be written");
    } else {
        text_literal(out, "{\"int\":{\"bits\":");
        text_int(out, (long long)bits);
        text_literal(out, ",\"sign\":");
        text_int(out, _PyLong_Sign(value));
        text_literal(out, ",\"sha256\":\"");
        text_sha256(out, bytes, size);
        text_literal(out, "\"}}");
    }
    Py_XDECREF(magnitude);
    PyMem_RawFree(bytes);
}

static void write_big(PyObject *value)
{
    size_t bits = _PyLong_NumBits(value);
    if (bits > MANY_BITS) {
        write_digest(value, bits);
        return;
    }
    PyObject *digits = _PyLong_Format(value, 10);
    if (!digits) {
        core_fail("an integer could not be written");
        return;
    }
    if (PyUnicode_GET_LENGTH(digits) - (_PyLong_Sign(value) < 0) > MANY_DIGITS) {
        write_digest(value, bits);
    } else {
        text_literal(&core.text, "{\"int\":");
        text_string(&core.text, digits);
        text_char(&core.text, '}');
    }
    Py_DECREF(digits);
}

void write_integer(PyObject *value)
{
    int overflow;
    long long small = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow || small >= SAFE_INTEGER || small <= -SAFE_INTEGER)
        write_big(value);
    else
        text_int(&core.text, small);
}
