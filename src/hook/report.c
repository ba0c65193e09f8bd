/*
 * hook/report.c: which hooks are live, and which calls of which library go past them.
 *
 * A library's calls go where its relocations say. Each of these is looked at: one that names a function that the hooks
 * have, and is bound to another library's, is told. One that is not bound yet points into its own library. What has the
 * same cause is told in one line. Then there is one for each library: how many of the names it calls, and which.
 */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include <weft/io.h>

#include "hook/elf.h"
#include "hook/lock.h"
#include "hook/names.h"
#include "hook/real.h"

#define NAME(name) #name,
static const char *const names[] = {HOOK_NAMES(NAME) LOCK_NAMES(NAME)};

enum { NAMES = sizeof names / sizeof *names };

/* Its place among them; -1: it is none. */
static int find_name(const char *name)
{
    for (int i = 0; i < NAMES; i++) {
        if (strcmp(names[i], name) == 0)
            return i;
    }
    return -1;
}

bool wf_hook_has(const char *name)
{
    return find_name(name) >= 0;
}

/* Where the object lies that an address is in; NULL: in none. */
static const void *object_of(const void *address, const char **path)
{
    Dl_info info;
    if (!dladdr(address, &info))
        return NULL;
    if (path)
        *path = info.dli_fname;
    return info.dli_fbase;
}

/* Why calls go past the hooks. */
enum why { BEFORE, IN_PROGRAM, THREAD_SANITIZER, NOT_EXPORTED, BOUND_ELSEWHERE };

/* The names that one library, or each of them, has past the hooks for one cause. */
struct finding {
    struct finding *next;
    enum why why;
    char who[64], there[64]; /* who calls ("": whoever does), and whose function */
    bool has[NAMES];
};

/* What one library, or the program, calls of the names. */
struct caller {
    struct caller *next;
    char who[64];
    bool live[NAMES], past[NAMES];
};

struct report {
    const void *ours, *wefts, *program; /* where this library lies, the libweft that it calls, and the program */
    const void *asan, *ubsan, *tsan;    /* where these sanitizers lie, or NULL */
    struct finding *first, **last;
    struct caller *callers, **last_caller;
    char other_weft[64], our_weft[64]; /* two copies of libweft, or "" */
    int live, by_way, absent, past;
};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void add(struct report *r, enum why why, const char *who, const char *there, int name)
{
    struct finding *f = r->first;
    there = base_name(there);
    while (f && (f->why != why || strncmp(f->who, who, sizeof f->who - 1) != 0 ||
                 strncmp(f->there, there, sizeof f->there - 1) != 0))
        f = f->next;
    if (f && f->has[name])
        return;
    r->past++;
    if (!f) {
        f = calloc(1, sizeof *f);
        if (!f)
            return; /* it is counted */
        f->why = why;
        snprintf(f->who, sizeof f->who, "%s", who);
        snprintf(f->there, sizeof f->there, "%s", there);
        *r->last = f;
        r->last = &f->next;
    }
    f->has[name] = true;
}

/* The object that is looked at; NULL: no memory, and it is left out. */
static struct caller *add_caller(struct report *r, const char *who)
{
    struct caller *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    snprintf(c->who, sizeof c->who, "%s", who);
    *r->last_caller = c;
    r->last_caller = &c->next;
    return c;
}

/* What one object's dynamic section says. */
struct tables {
    const char *strings;
    const ElfW(Sym) * symbols;
    const ElfW(Rela) * jumps, *others;
    size_t jump_bytes, other_bytes;
};

static struct tables read_tables(const struct dl_phdr_info *info)
{
    struct tables t = {0};
    for (const ElfW(Dyn) *d = wf_dynamic_of(info); d && d->d_tag != DT_NULL; d++) {
        const void *at = wf_dynamic_pointer(info->dlpi_addr, d->d_un.d_ptr);
        switch (d->d_tag) {
        case DT_STRTAB:
            t.strings = at;
            break;
        case DT_SYMTAB:
            t.symbols = at;
            break;
        case DT_JMPREL:
            t.jumps = at;
            break;
        case DT_PLTRELSZ:
            t.jump_bytes = d->d_un.d_val;
            break;
        case DT_RELA:
            t.others = at;
            break;
        case DT_RELASZ:
            t.other_bytes = d->d_un.d_val;
            break;
        default:
            break;
        }
    }
    return t;
}

static const void *object_with(const char *name)
{
    const void *at = dlsym(RTLD_DEFAULT, name);
    return at ? object_of(at, NULL) : NULL;
}

/* AddressSanitizer's functions, and UndefinedBehaviorSanitizer's, call the next of their name. They have none for C++. */
static bool calls_ours(const struct report *r, const void *object, const char *name)
{
    return object && (object == r->asan || object == r->ubsan) && strncmp(name, "__cxa_", 6) != 0;
}

static void look_at(struct report *r, struct caller *c, const struct dl_phdr_info *info, const struct tables *t,
                    const ElfW(Rela) * from, size_t bytes)
{
    for (size_t i = 0; i < bytes / sizeof *from; i++) {
        size_t symbol = ELF64_R_SYM(from[i].r_info);
        if (symbol == 0 || t->symbols[symbol].st_shndx != SHN_UNDEF)
            continue;
        const char *name = t->strings + t->symbols[symbol].st_name, *there = "?";
        int place = find_name(name);
        if (place < 0)
            continue;
        const void *bound = *(void *const *)(info->dlpi_addr + from[i].r_offset);
        const void *object = object_of(bound, &there),
                   *own = object_of((void *)(info->dlpi_addr + from[i].r_offset), NULL);
        bool is_bound = object && object != own;
        bool live = object == r->ours || calls_ours(r, object, name) || (!is_bound && object_with(name) == r->ours);
        if (c)
            (live ? c->live : c->past)[place] = true;
        if (live || !is_bound)
            continue;
        if (r->ours == r->program)
            add(r, object_with(name) == r->ours ? BOUND_ELSEWHERE : NOT_EXPORTED, base_name(info->dlpi_name), there,
                place);
        else if (dlsym(RTLD_DEFAULT, name) != bound) /* else it was told of that name that it is not live */
            add(r, BOUND_ELSEWHERE, info->dlpi_name[0] ? base_name(info->dlpi_name) : "the program", there, place);
    }
}

static void look_at_object(struct report *r, const struct dl_phdr_info *info)
{
    struct tables t = read_tables(info);
    const char *name = base_name(info->dlpi_name);
    if (!t.strings || !t.symbols || strncmp(name, "linux-vdso", 10) == 0 || strncmp(name, "libweft", 7) == 0 ||
        strncmp(name, "libc.so", 7) == 0 || strncmp(name, "ld-linux", 8) == 0)
        return; /* those that are meant to go past them, and those that always do */
    struct caller *c = add_caller(r, name[0] ? name : program_invocation_short_name);
    look_at(r, c, info, &t, t.jumps, t.jump_bytes);
    look_at(r, c, info, &t, t.others, t.other_bytes);
}

/* The objects that are loaded. */
struct objects {
    struct dl_phdr_info *all;
    size_t count;
};

/* Only notes it: the loader has a lock now that a dlopen elsewhere waits for, while it has the one that dlsym wants. */
static int note_object(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct objects *o = arg;
    (void)size;
    struct dl_phdr_info *more = realloc(o->all, (o->count + 1) * sizeof *more);
    char *name = strdup(info->dlpi_name ? info->dlpi_name : "");
    if (more)
        o->all = more;
    if (!more || !name) {
        free(name);
        return 1;
    }
    o->all[o->count] = *info;
    o->all[o->count++].dlpi_name = name;
    return 0;
}

/* One that has a libweft of its own, beside that which the hooks ask who is a fiber. */
static void look_for_weft(struct report *r, const struct dl_phdr_info *info, void *handle)
{
    const char *path = "?", *ours = "?";
    const void *at = dlsym(handle, "weft_run"), *own = object_of(info->dlpi_phdr, NULL);
    if (!at)
        at = dlsym(handle, "weft_hooked");
    if (!at || !own || own == r->wefts || object_of(at, &path) != own || r->other_weft[0])
        return; /* it has none, but maybe needs one that has */
    object_of((const void *)weft_hooked, &ours);
    snprintf(r->other_weft, sizeof r->other_weft, "%s", base_name(path));
    snprintf(r->our_weft, sizeof r->our_weft, "%s", base_name(ours));
    r->past++;
}

/* One that is gone meanwhile, or has come back elsewhere, is left out; another stays while it is looked at. */
static void look_at_objects(struct report *r)
{
    struct objects o = {0};
    dl_iterate_phdr(note_object, &o);
    for (size_t i = 0; i < o.count; i++) {
        const struct dl_phdr_info *info = &o.all[i];
        void *held = info->dlpi_name[0] ? dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD) : NULL;
        if (info->dlpi_name[0] ? held && ((struct link_map *)held)->l_addr == info->dlpi_addr : i == 0) {
            look_at_object(r, info);
            look_for_weft(r, info, held ? held : RTLD_DEFAULT);
        }
        if (held)
            dlclose(held);
        free((char *)info->dlpi_name);
    }
    free(o.all);
}

/* Who stands before us under each name. */
static void look_at_names(struct report *r)
{
    for (int i = 0; i < NAMES; i++) {
        const char *path = "?";
        const void *first = dlsym(RTLD_DEFAULT, names[i]), *object = first ? object_of(first, &path) : NULL;
        if (object == r->ours)
            r->live++;
        else if (calls_ours(r, object, names[i]))
            r->by_way++;
        else if (object && object == r->tsan)
            add(r, THREAD_SANITIZER, "", "", i);
        else if (!first || r->ours == r->program)
            r->absent++; /* nobody has it (C++'s, in C); or the program calls ours, and who else calls it is told below */
        else
            add(r, object == r->program ? IN_PROGRAM : BEFORE, "", path, i);
    }
}

static int count(const bool has[NAMES])
{
    int n = 0;
    for (int i = 0; i < NAMES; i++)
        n += has[i];
    return n;
}

static void print_names(FILE *out, const bool has[NAMES])
{
    enum { MANY = 24, SOME = 8 };
    const char *between = " ";
    int all = count(has), printed = 0;
    for (int i = 0; i < NAMES && (all < MANY || printed < SOME); i++) {
        if (has[i]) {
            fprintf(out, "%s%s", between, names[i]);
            between = ", ";
            printed++;
        }
    }
    if (printed < all)
        fprintf(out, " and %d others", all - printed);
}

static void print(FILE *out, const struct finding *f)
{
    switch (f->why) {
    case BEFORE:
        fprintf(out,
                "weft-hook: not live, as %s stands before libweft-hook (link with -lweft-hook first, or preload it):",
                f->there);
        break;
    case IN_PROGRAM:
        fprintf(out, "weft-hook: not live, as %s has them itself:", f->there);
        break;
    case THREAD_SANITIZER:
        fprintf(out, "weft-hook: ThreadSanitizer stands before the hooks, which do not work with it\n");
        return;
    case NOT_EXPORTED:
        fprintf(out,
                "weft-hook: %s calls those of %s, as the program, which has the hooks, does not export them (link it "
                "with -rdynamic):",
                f->who, f->there);
        break;
    case BOUND_ELSEWHERE:
        fprintf(out,
                "weft-hook: %s calls those of %s, as it was loaded with RTLD_DEEPBIND, or linked to a version of its "
                "own:",
                f->who, f->there);
        break;
    }
    print_names(out, f->has);
    fputc('\n', out);
}

static void print_report(FILE *out, struct report *r)
{
    if (r->other_weft[0])
        fprintf(out,
                "weft-hook: this does not work: there are two libwefts, in %s and in %s, and the hooks do not see the "
                "fibers of one of them; link with libweft.so, or with libweft.a and weft-hook.o\n",
                r->other_weft, r->our_weft);
    fprintf(out, "weft-hook: %s in %s (%ld), driver %s%s, %s: %d of %d names are live, %d go past them\n",
            wf_hooks_on ? "on" : "off (WEFT_HOOK=off)", program_invocation_short_name, (long)wf_process(),
            weft_io_backend(), weft_hook_self() != 0 ? "" : " by default",
            wf_locks_on   ? "locks on"
            : wf_hooks_on ? "locks off (WEFT_HOOK_LOCKS=1 turns them on)"
                          : "locks off",
            r->live + r->by_way, NAMES - r->absent, r->past);
    if (r->by_way > 0)
        fprintf(out, "weft-hook: %d names are reached by way of a sanitizer's functions\n", r->by_way);
    while (r->first) {
        struct finding *f = r->first;
        r->first = f->next;
        print(out, f);
        free(f);
    }
}

/* Of each library that calls any of the names: which. */
static void print_callers(FILE *out, struct report *r)
{
    while (r->callers) {
        struct caller *c = r->callers;
        r->callers = c->next;
        int live = count(c->live), past = count(c->past);
        if (live + past > 0) {
            fprintf(out, "    %s: %d live, %d not:", c->who, live, past);
            print_names(out, past > 0 ? c->past : c->live);
            fputc('\n', out);
        }
        free(c);
    }
    fputs("    need no hook, as they do not wait: socket, fcntl, ioctl, dup, getsockopt, shutdown, epoll_ctl, popen, "
          "fork\n",
          out);
}

int weft_hook_report(FILE *out)
{
    if (!out)
        return -EINVAL;
    struct report r = {.ours = object_of((const void *)weft_hook_report, NULL),
                       .wefts = object_of((const void *)weft_hooked, NULL),
                       .program = object_of((const void *)getauxval(AT_PHDR), NULL),
                       .asan = object_with("__asan_init"),
                       .ubsan = object_with("__ubsan_handle_add_overflow"),
                       .tsan = object_with("__tsan_init")};
    r.last = &r.first;
    r.last_caller = &r.callers;
    look_at_names(&r);
    look_at_objects(&r);
    print_report(out, &r);
    print_callers(out, &r);
    return r.past;
}

__attribute__((constructor(103))) static void tell(void)
{
    if (wf_is_verbose)
        weft_hook_report(stderr);
}
