/* Names of frames: a name is told when the text of its value is not the text last told for it. */
#include "frames.h"

#include "names.h"

#include "core.h"
#include "describing.h"
#include "effects.h"
#include "values.h"

static Told *globals_told;

bool names_open(void)
{
    globals_told = PyMem_RawCalloc((size_t)core.plan.globals.count + 1, sizeof *globals_told);
    return globals_told != NULL;
}

void names_close(void)
{
    Told *told = globals_told;
    globals_told = NULL;
    for (int i = 0; told && i < core.plan.globals.count; i++)
        told_clear(&told[i]);
    PyMem_RawFree(told);
}

Told *told_of(State *state, const Name *name)
{
    if (name->global >= 0)
        return &globals_told[name->global];
    for (State *outside = name->owner ? state->parent : NULL; outside; outside = outside->parent)
        if (outside->code == name->owner)
            return &outside->told[name->owner_place];
    return name->place >= 0 ? &state->told[name->place] : NULL;
}

static size_t begin(const State *state, const char *kind, const Name *name)
{
    size_t start = record_begin();
    text_literal(&core.text, "{\"k\":\"");
    text_bytes(&core.text, kind, 3);
    text_literal(&core.text, "\",\"f\":");
    text_int(&core.text, state->f);
    text_literal(&core.text, ",\"name\":");
    text_string(&core.text, name->name);
    return start;
}

static void end(size_t start, const Name *name)
{
    if (name->where == GLOBAL)
        text_literal(&core.text, ",\"scope\":\"global\"");
    else if (name->where == FREE)
        text_literal(&core.text, ",\"scope\":\"nonlocal\"");
    text_char(&core.text, '}');
    record_end(start);
}

/* Remembers the text from `start` on as told for a name, with the value if that can be held. */
static void remember(Told *told, PyObject *value, size_t start)
{
    static const char ref[] = "{\"ref\":";
    const char *text = core.text.data + start;
    size_t size = core.text.size - start;
    bool held = is_atom_type(Py_TYPE(value)) || (size > sizeof ref && !memcmp(text, ref, sizeof ref - 1));
    told_set(told, held ? value : NULL, text, size);
}

static void look_at_name(const State *state, const Name *name, Told *told, PyObject *value)
{
    if (told->set && told->held == value && value)
        return;
    if (!value) {
        if (told->set) {
            told_clear(told);
            end(begin(state, "del", name), name);
        }
        return;
    }
    Py_INCREF(value);
    size_t start = begin(state, "set", name);
    text_literal(&core.text, ",\"v\":");
    size_t from = core.text.size;
    write_value(value, 0);
    if (core.text.broken) {
        core_fail("there is no memory");
        core.text.size = start;
    } else {
        size_t size = core.text.size - from;
        bool same = told->set && told->size == size && !memcmp(told_text(told), core.text.data + from, size);
        remember(told, value, from);
        if (same)
            core.text.size = start;
        else
            end(start, name);
    }
    Py_DECREF(value);
}

/* The value of a name of a class body itself. */
static PyObject *value_in_body(const Name *name, PyFrameObject *frame)
{
    if (!space_is_readable(frame))
        return NULL;
    PyObject *value = PyDict_GetItemWithError(frame_space(frame), name->name);
    if (!value && PyErr_Occurred())
        PyErr_Clear();
    return value;
}

void look_at_kept(State *state, const Kept *kept)
{
    const Names *names = &state->code->variables;
    for (int i = 0; i < names->count; i++) {
        Told *told = names->of[i].where == GLOBAL || kept[i].same ? NULL : told_of(state, &names->of[i]);
        if (told)
            look_at_name(state, &names->of[i], told, kept[i].value);
    }
}

static bool has_name(const Line *line, const Name *name)
{
    for (int i = 0; line && i < line->names.count; i++) {
        int where = line->names.of[i].where;
        if ((where == GLOBAL || where == SPACE) && line->names.of[i].name == name->name)
            return true;
    }
    return false;
}

void look_at_globals(State *state, PyFrameObject *frame, const Line *but)
{
    const Names *names = &core.plan.globals;
    for (int i = 0; i < names->count; i++) {
        Told *told = has_name(but, &names->of[i]) ? NULL : told_of(state, &names->of[i]);
        if (told)
            look_at_name(state, &names->of[i], told, value_of(&names->of[i], state->code, frame));
    }
}

void look_at_names(State *state, PyFrameObject *frame, const Names *names)
{
    for (int i = 0; i < names->count; i++) {
        const Name *name = &names->of[i];
        Told *told = told_of(state, name);
        if (!told)
            continue;
        if (name->where != SPACE || state->code->kind == MODULE)
            look_at_name(state, name, told, value_of(name, state->code, frame));
        else
            look_at_name(state, name, told, value_in_body(name, frame));
    }
}

void write_arguments(State *state, PyFrameObject *frame)
{
    const Names *parameters = &state->code->parameters;
    bool any = false;
    for (int i = 0; i < parameters->count; i++) {
        const Name *name = &parameters->of[i];
        PyObject *value = value_of(name, state->code, frame);
        if (!value || name->place < 0)
            continue;
        if (any)
            text_char(&core.text, ',');
        any = true;
        text_string(&core.text, name->name);
        text_char(&core.text, ':');
        size_t from = core.text.size;
        Py_INCREF(value);
        write_value(value, 0);
        if (core.text.broken)
            core_fail("there is no memory");
        else
            remember(&state->told[name->place], value, from);
        Py_DECREF(value);
    }
}
