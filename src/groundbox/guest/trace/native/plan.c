/* Reading a plan. All structures are in one arena; the objects in them are borrowed from the plan in Python. */
#include "plan.h"

#include <limits.h>
#include <string.h>

enum { CHUNK = 1 << 14 };

typedef struct Chunk {
    struct Chunk *next;
    size_t used, size;
    _Alignas(16) char data[];
} Chunk;

typedef struct {
    Plan *plan;
    Code *code;
} Reader;

/* Zeroed memory that lives as long as the plan; NULL with an exception. */
static void *take(Plan *plan, size_t count, size_t size)
{
    size_t wanted = (count * size + 16) & ~(size_t)15;
    Chunk *chunk = plan->chunks;
    if (!chunk || chunk->size - chunk->used < wanted) {
        size_t room = wanted > CHUNK ? wanted : CHUNK;
        chunk = PyMem_RawCalloc(1, sizeof *chunk + room);
        if (!chunk)
            return PyErr_NoMemory();
        chunk->size = room;
        chunk->next = plan->chunks;
        plan->chunks = chunk;
    }
    void *taken = chunk->data + chunk->used;
    chunk->used += wanted;
    return taken;
}

/* A field of a named tuple, borrowed from it, of a certain type; NULL with an exception. */
static PyObject *field(PyObject *of, const char *name, PyTypeObject *type)
{
    PyObject *found = PyObject_GetAttrString(of, name);
    if (!found)
        return NULL;
    /* The tuple has it, too. */
    Py_DECREF(found);
    if (type && !PyObject_TypeCheck(found, type)) {
        PyErr_Format(PyExc_TypeError, "%s of a plan is a %s", name, Py_TYPE(found)->tp_name);
        return NULL;
    }
    return found;
}

static bool int_field(PyObject *of, const char *name, int *value)
{
    PyObject *found = field(of, name, &PyLong_Type);
    *value = found ? (int)PyLong_AsLong(found) : -1;
    return found && !PyErr_Occurred();
}

static bool bool_field(PyObject *of, const char *name, bool *value)
{
    PyObject *found = field(of, name, NULL);
    *value = found == Py_True;
    return found != NULL;
}

static int index_in(PyObject *names, PyObject *name)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++)
        if (PyUnicode_Compare(PyTuple_GET_ITEM(names, i), name) == 0)
            return (int)i;
    return -1;
}

static int index_of(const Names *names, PyObject *name)
{
    for (int i = 0; i < names->count; i++)
        if (names->of[i].name == name || PyUnicode_Compare(names->of[i].name, name) == 0)
            return i;
    return -1;
}

static void place_name(const Reader *reader, Name *name)
{
    const Code *code = reader->code;
    name->slot = name->place = name->owner_place = name->global = -1;
    if (!code)
        return;
    if (name->where == LOCAL || name->where == FREE)
        name->slot = index_in(code->code->co_localsplusnames, name->name);
    if (name->where == GLOBAL || (name->where == SPACE && code->kind == MODULE))
        name->global = index_of(&reader->plan->globals, name->name);
    else
        name->place = index_of(&code->variables, name->name);
}

static bool read_name(const Reader *reader, PyObject *from, Name *name)
{
    int where;
    if (!(name->name = field(from, "name", &PyUnicode_Type)) || !int_field(from, "where", &where))
        return false;
    name->where = (enum where)where;
    place_name(reader, name);
    return true;
}

static bool read_names(const Reader *reader, PyObject *from, Names *names)
{
    if (!from)
        return false;
    Py_ssize_t count = PyTuple_GET_SIZE(from);
    if (!(names->of = take(reader->plan, (size_t)count, sizeof *names->of)))
        return false;
    for (Py_ssize_t i = 0; i < count; i++)
        if (!read_name(reader, PyTuple_GET_ITEM(from, i), &names->of[i]))
            return false;
    names->count = (int)count;
    return true;
}

/* `variables` refer to their own places, so these are set when all are read. */
static bool read_variables(const Reader *reader, PyObject *from)
{
    Names *names = &reader->code->variables;
    if (!read_names(reader, from, names))
        return false;
    for (int i = 0; i < names->count; i++)
        place_name(reader, &names->of[i]);
    reader->code->place_count = names->count;
    return true;
}

static bool read_outer(const Reader *reader)
{
    const Names *all = &reader->code->variables;
    Names *outer = &reader->code->outer;
    if (!(outer->of = take(reader->plan, (size_t)all->count, sizeof *outer->of)))
        return false;
    for (int i = 0; i < all->count; i++)
        if (all->of[i].where == FREE || all->of[i].where == GLOBAL)
            outer->of[outer->count++] = all->of[i];
    return true;
}

static bool read_parameters(const Reader *reader, PyObject *from)
{
    Names *names = &reader->code->parameters;
    Py_ssize_t count = from ? PyTuple_GET_SIZE(from) : -1;
    if (count < 0 || !(names->of = take(reader->plan, (size_t)count, sizeof *names->of)))
        return false;
    for (Py_ssize_t i = 0; i < count; i++) {
        names->of[i] = (Name){.name = PyTuple_GET_ITEM(from, i), .where = LOCAL};
        place_name(reader, &names->of[i]);
    }
    names->count = (int)count;
    return true;
}

static bool read_step(const Reader *reader, PyObject *from, Step *step)
{
    if (!PyTuple_Check(from) || PyTuple_GET_SIZE(from) < 2)
        return PyErr_SetString(PyExc_TypeError, "a step of a plan is malformed"), false;
    step->attribute = PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(from, 0), "a") == 0;
    if (step->attribute) {
        step->value = PyTuple_GET_ITEM(from, 1);
        return true;
    }
    step->item = (enum item_step)PyLong_AsLong(PyTuple_GET_ITEM(from, 1));
    step->value = PyTuple_GET_ITEM(from, 2);
    if (step->item == VALUE_OF) {
        step->name.name = step->value;
        step->name.where = reader->code->code->co_flags & CO_NEWLOCALS ? LOCAL : SPACE;
        place_name(reader, &step->name);
    }
    return !PyErr_Occurred();
}

static bool read_path(const Reader *reader, PyObject *from, Path *path)
{
    PyObject *root = from ? field(from, "root", NULL) : NULL;
    PyObject *steps = root ? field(from, "steps", &PyTuple_Type) : NULL;
    if (!steps || !read_name(reader, root, &path->root))
        return false;
    Py_ssize_t count = PyTuple_GET_SIZE(steps);
    if (!(path->steps = take(reader->plan, (size_t)count, sizeof *path->steps)))
        return false;
    for (Py_ssize_t i = 0; i < count; i++)
        if (!read_step(reader, PyTuple_GET_ITEM(steps, i), &path->steps[i]))
            return false;
    path->count = (int)count;
    return true;
}

static bool read_effect(const Reader *reader, PyObject *from, Effect *effect)
{
    PyObject *first = field(from, "first", NULL);
    if (!first || !bool_field(from, "calls", &effect->calls) || !bool_field(from, "in_place", &effect->in_place) ||
        !read_path(reader, field(from, "path", NULL), &effect->path))
        return false;
    effect->has_first = first != Py_None;
    return !effect->has_first || read_path(reader, first, &effect->first);
}

static bool read_effects(const Reader *reader, PyObject *from, Line *line)
{
    if (!from)
        return false;
    line->any_effect = from == Py_None;
    if (line->any_effect)
        return true;
    Py_ssize_t count = PyTuple_GET_SIZE(from);
    if (!(line->effects = take(reader->plan, (size_t)count, sizeof *line->effects)))
        return false;
    for (Py_ssize_t i = 0; i < count; i++)
        if (!read_effect(reader, PyTuple_GET_ITEM(from, i), &line->effects[i]))
            return false;
    line->effect_count = (int)count;
    return true;
}

/* Sets `bits` in the byte of each code unit whose offset `offsets` gives. */
static bool mark_units(const Code *code, PyObject *offsets, unsigned char *units, unsigned char bits)
{
    PyObject *iterator = offsets ? PyObject_GetIter(offsets) : NULL, *offset;
    while (iterator && (offset = PyIter_Next(iterator))) {
        long unit = PyLong_AsLong(offset) / CODE_UNIT;
        Py_DECREF(offset);
        if (unit >= 0 && unit < code->unit_count)
            units[unit] |= bits;
    }
    Py_XDECREF(iterator);
    return !PyErr_Occurred();
}

static bool read_loop(const Reader *reader, PyObject *from, Line *line)
{
    if (!from || from == Py_None)
        return from != NULL;
    line->loops = true;
    line->loop = reader->code->loop_count++;
    line->loop_first = (int)PyLong_AsLong(PyTuple_GET_ITEM(from, 0));
    line->loop_last = (int)PyLong_AsLong(PyTuple_GET_ITEM(from, 1));
    line->loop_gives = PyTuple_GET_ITEM(from, 2) == Py_True;
    return !PyErr_Occurred();
}

static bool read_line(const Reader *reader, PyObject *from, Line *line)
{
    line->known = true;
    return read_names(reader, field(from, "names", &PyTuple_Type), &line->names) &&
           read_names(reader, field(from, "last_names", &PyTuple_Type), &line->last_names) &&
           read_names(reader, field(from, "roots", &PyTuple_Type), &line->roots) &&
           read_effects(reader, field(from, "effects", NULL), line) &&
           read_loop(reader, field(from, "loop", NULL), line);
}

static bool read_lines(const Reader *reader, PyObject *from)
{
    PyObject *number, *line;
    long least = LONG_MAX, most = LONG_MIN;
    if (!from)
        return false;
    for (Py_ssize_t at = 0; PyDict_Next(from, &at, &number, &line);) {
        long value = PyLong_AsLong(number);
        least = value < least ? value : least;
        most = value > most ? value : most;
    }
    Code *code = reader->code;
    code->first_line = (int)least;
    code->line_count = most < least ? 0 : (int)(most - least + 1);
    if (!(code->lines = take(reader->plan, (size_t)code->line_count, sizeof *code->lines)))
        return false;
    for (Py_ssize_t at = 0; PyDict_Next(from, &at, &number, &line);)
        if (!read_line(reader, line, &code->lines[PyLong_AsLong(number) - least]))
            return false;
    return !PyErr_Occurred();
}

static bool read_offsets(const Reader *reader, PyObject *from)
{
    Code *code = reader->code;
    code->unit_count = (int)Py_SIZE(code->code);
    code->exits = take(reader->plan, (size_t)code->unit_count, 1);
    code->marks = take(reader->plan, (size_t)code->unit_count, 1);
    PyObject *exits = field(from, "exits", &PyDict_Type), *offset, *how;
    if (!code->exits || !code->marks || !exits)
        return false;
    for (Py_ssize_t at = 0; PyDict_Next(exits, &at, &offset, &how);) {
        long unit = PyLong_AsLong(offset) / CODE_UNIT;
        if (unit >= 0 && unit < code->unit_count)
            code->exits[unit] = (unsigned char)PyLong_AsLong(how);
    }
    PyObject *hidden = field(from, "hidden", &PyFrozenSet_Type);
    code->hides = hidden && PySet_GET_SIZE(hidden);
    return mark_units(code, field(from, "starts", NULL), code->marks, MARK_START) &&
           mark_units(code, field(from, "quiet", NULL), code->marks, MARK_QUIET) &&
           mark_units(code, hidden, code->marks, MARK_HIDDEN);
}

static bool read_way(PyObject *from, Way *way)
{
    int does = NOTHING;
    PyObject *truth = from ? field(from, "truth", NULL) : NULL;
    if (!truth || !int_field(from, "does", &does))
        return false;
    way->truth = truth == Py_None ? -1 : truth == Py_True;
    way->does = (enum does)does;
    return true;
}

/* Jumps with an EXTENDED_ARG before them are there twice, and one structure. */
static bool read_jumps(const Reader *reader, PyObject *from)
{
    Code *code = reader->code;
    PyObject *offset, *jump;
    if (!from)
        return false;
    Py_ssize_t count = PyDict_GET_SIZE(from);
    code->branches = take(reader->plan, (size_t)count, sizeof *code->branches);
    code->branch_units = take(reader->plan, (size_t)code->unit_count, sizeof *code->branch_units);
    if (!code->branches || !code->branch_units)
        return false;
    PyObject **seen = take(reader->plan, (size_t)count, sizeof *seen);
    for (Py_ssize_t at = 0; seen && PyDict_Next(from, &at, &offset, &jump);) {
        int place = 0;
        while (place < code->branch_count && seen[place] != jump)
            place++;
        Branch *branch = &code->branches[place];
        long unit = PyLong_AsLong(offset) / CODE_UNIT;
        if (place == code->branch_count) {
            seen[code->branch_count++] = jump;
            if (!int_field(jump, "falls_to", &branch->falls_to) || !int_field(jump, "loop", &branch->loop) ||
                !(branch->at = field(jump, "at", &PyUnicode_Type)) ||
                !read_way(field(jump, "falls", NULL), &branch->ways[0]) ||
                !read_way(field(jump, "jumps", NULL), &branch->ways[1]))
                return false;
        }
        if (unit >= 0 && unit < code->unit_count && place < USHRT_MAX)
            code->branch_units[unit] = (unsigned short)(place + 1);
    }
    return seen && !PyErr_Occurred();
}

static bool read_counted(const Reader *reader, PyObject *loops, PyObject *targets)
{
    Code *code = reader->code;
    if (!loops || !targets)
        return false;
    Py_ssize_t count = PyTuple_GET_SIZE(loops);
    if (!(code->counted = take(reader->plan, (size_t)count, sizeof *code->counted)))
        return false;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *from = PyTuple_GET_ITEM(loops, i);
        CountedLoop *loop = &code->counted[i];
        if (!int_field(from, "line", &loop->line) || !int_field(from, "header_last", &loop->header_last) ||
            !int_field(from, "inner", &loop->inner) ||
            !read_names(reader, PyTuple_GET_ITEM(targets, i), &loop->targets))
            return false;
    }
    code->counted_count = (int)count;
    return true;
}

static bool read_head_loops(const Reader *reader, PyObject *from)
{
    Code *code = reader->code;
    PyObject *offset, *loops;
    if (!from || !(code->heads = take(reader->plan, (size_t)PyDict_GET_SIZE(from), sizeof *code->heads)))
        return false;
    for (Py_ssize_t at = 0; PyDict_Next(from, &at, &offset, &loops);) {
        Head *head = &code->heads[code->head_count++];
        head->offset = (int)PyLong_AsLong(offset);
        head->count = (int)PyTuple_GET_SIZE(loops);
        if (!(head->loops = take(reader->plan, (size_t)head->count, sizeof *head->loops)))
            return false;
        for (int i = 0; i < head->count; i++)
            head->loops[i] = (int)PyLong_AsLong(PyTuple_GET_ITEM(loops, i));
    }
    return !PyErr_Occurred();
}

static bool read_sources(const Reader *reader, PyObject *from)
{
    Code *code = reader->code;
    PyObject *offset, *within;
    if (!from || !(code->sources = take(reader->plan, (size_t)PyDict_GET_SIZE(from), sizeof *code->sources)))
        return false;
    for (Py_ssize_t at = 0; PyDict_Next(from, &at, &offset, &within);)
        code->sources[code->source_count++] = (Source){(int)PyLong_AsLong(offset), (int)PyLong_AsLong(within)};
    return !PyErr_Occurred();
}

static bool read_branches(const Reader *reader, PyObject *from, PyObject *targets)
{
    return from && read_jumps(reader, field(from, "jumps", &PyDict_Type)) &&
           read_counted(reader, field(from, "loops", &PyTuple_Type), targets) &&
           read_head_loops(reader, field(from, "heads", &PyDict_Type)) &&
           read_sources(reader, field(from, "sources", &PyDict_Type));
}

static bool read_head(const Reader *reader, PyObject *from)
{
    Code *code = reader->code;
    int kind;
    code->code = (PyCodeObject *)field(from, "code", &PyCode_Type);
    if (!code->code || !int_field(from, "kind", &kind) || !(code->name = field(from, "name", &PyUnicode_Type)))
        return false;
    code->kind = (enum code_kind)kind;
    code->is_body = code->kind == MODULE || code->kind == CLASS;
    return bool_field(from, "folds", &code->folds);
}

static bool read_code(const Reader *reader, PyObject *from)
{
    Code *code = reader->code;
    return read_head(reader, from) && read_offsets(reader, from) &&
           read_variables(reader, field(from, "variables", &PyTuple_Type)) && read_outer(reader) &&
           read_parameters(reader, field(from, "parameters", &PyTuple_Type)) &&
           read_names(reader, field(from, "shared", &PyTuple_Type), &code->shared) &&
           read_lines(reader, field(from, "lines", &PyDict_Type)) &&
           read_line(reader, field(from, "blank", NULL), &code->blank) &&
           read_branches(reader, field(from, "branches", NULL), field(from, "targets", &PyTuple_Type));
}

static bool make_table(Plan *plan)
{
    size_t size = 16;
    while (size < (size_t)plan->count * 4)
        size *= 2;
    plan->mask = size - 1;
    if (!(plan->table = take(plan, size, sizeof *plan->table)))
        return false;
    for (int i = 0; i < plan->count; i++) {
        size_t at = ((uintptr_t)plan->codes[i].code >> 4) & plan->mask;
        while (plan->table[at])
            at = (at + 1) & plan->mask;
        plan->table[at] = &plan->codes[i];
    }
    return true;
}

/* The place among an owner's values of a name that it need not assign itself. */
static int place_in(Plan *plan, Code *owner, PyObject *name)
{
    int place = index_of(&owner->variables, name);
    for (int extra = owner->variables.count; place < 0 && extra < owner->place_count; extra++)
        if (PyUnicode_Compare(owner->extra_names[extra - owner->variables.count], name) == 0)
            place = extra;
    if (place >= 0)
        return place;
    int extra_count = owner->place_count - owner->variables.count;
    PyObject **extra_names = take(plan, (size_t)extra_count + 1, sizeof *extra_names);
    if (!extra_names)
        return -1;
    if (extra_count)
        memcpy(extra_names, owner->extra_names, (size_t)extra_count * sizeof *extra_names);
    extra_names[extra_count] = name;
    owner->extra_names = extra_names;
    return owner->place_count++;
}

static bool own_names(Plan *plan, PyObject *owners, Names *names)
{
    for (int i = 0; i < names->count; i++) {
        Name *name = &names->of[i];
        PyObject *owner = name->where == FREE ? PyDict_GetItemWithError(owners, name->name) : NULL;
        if (!owner)
            continue;
        if (!(name->owner = plan_of(plan, (PyCodeObject *)owner)))
            continue;
        if ((name->owner_place = place_in(plan, name->owner, name->name)) < 0)
            return false;
    }
    return !PyErr_Occurred();
}

static bool own_line(Plan *plan, PyObject *owners, Line *line)
{
    return own_names(plan, owners, &line->names) && own_names(plan, owners, &line->last_names);
}

static bool read_owners(Plan *plan, Code *code, PyObject *owners)
{
    if (!owners)
        return false;
    if (!PyDict_GET_SIZE(owners))
        return true;
    for (int i = 0; i < code->line_count; i++)
        if (!own_line(plan, owners, &code->lines[i]))
            return false;
    return own_line(plan, owners, &code->blank) && own_names(plan, owners, &code->variables) &&
           own_names(plan, owners, &code->outer);
}

static bool read_codes(Plan *plan, PyObject *codes)
{
    PyObject *key, *from;
    if (!codes)
        return false;
    plan->codes = take(plan, (size_t)PyDict_GET_SIZE(codes), sizeof *plan->codes);
    for (Py_ssize_t at = 0; plan->codes && PyDict_Next(codes, &at, &key, &from); plan->count++)
        if (!read_code(&(Reader){plan, &plan->codes[plan->count]}, from))
            return false;
    if (!plan->codes || !make_table(plan))
        return false;
    int index = 0;
    for (Py_ssize_t at = 0; PyDict_Next(codes, &at, &key, &from);)
        if (!read_owners(plan, &plan->codes[index++], field(from, "owners", &PyDict_Type)))
            return false;
    return true;
}

static bool read_globals(Plan *plan, PyObject *program)
{
    Reader reader = {plan, NULL};
    if (!read_names(&reader, field(program, "globals", &PyTuple_Type), &plan->globals))
        return false;
    for (int i = 0; i < plan->globals.count; i++)
        plan->globals.of[i].global = i;
    return true;
}

bool plan_read(Plan *plan, PyObject *program)
{
    *plan = (Plan){.program = Py_NewRef(program)};
    PyObject *facts = field(program, "facts", NULL);
    return facts && bool_field(facts, "holds", &plan->holds) && read_globals(plan, program) &&
           read_codes(plan, field(program, "codes", &PyDict_Type));
}

void plan_free(Plan *plan)
{
    PyObject *program = plan->program;
    for (Chunk *chunk = plan->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        PyMem_RawFree(chunk);
    }
    *plan = (Plan){0};
    Py_XDECREF(program);
}
