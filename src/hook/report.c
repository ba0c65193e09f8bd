/*
 * hook/report.c: which hooks are live, and which calls of which library go past them.
 *
 * A library's calls go where its relocations say. Each of these is looked at: one that names a function that the hooks
 * have, and is bound to another library's, is told. One that is not bound yet points into its own library.
 */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include <weft/io.h>

#include "hook/names.h"
#include "hook/real.h"

#define NAME(name) #name,
static const char *const names[] = {HOOK_NAMES(NAME)};

enum { NAMES = sizeof names / sizeof *names };

bool wf_hook_has(const char *name)
{
    for (size_t i = 0; i < NAMES; i++) {
        if (strcmp(names[i], name) == 0)
            return true;
    }
    return false;
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

struct report {
    FILE *out;
    const void *ours; /* where this library lies */
    int past;
};

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
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_DYNAMIC)
            continue;
        for (const ElfW(Dyn) *d = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr); d->d_tag != DT_NULL;
             d++) {
            const void *at = (const void *)d->d_un.d_ptr;
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
    }
    return t;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* AddressSanitizer's functions, and UndefinedBehaviorSanitizer's, call the next of their name. */
static bool is_sanitizer(const char *path)
{
    const char *name = base_name(path);
    return strncmp(name, "libasan.so", 10) == 0 || strncmp(name, "libubsan.so", 11) == 0;
}

static void look_at(struct report *r, const struct dl_phdr_info *info, const struct tables *t, const ElfW(Rela) * from,
                    size_t bytes)
{
    for (size_t i = 0; i < bytes / sizeof *from; i++) {
        size_t symbol = ELF64_R_SYM(from[i].r_info);
        if (symbol == 0 || t->symbols[symbol].st_shndx != SHN_UNDEF)
            continue;
        const char *name = t->strings + t->symbols[symbol].st_name, *there = "?";
        if (!wf_hook_has(name))
            continue;
        const void *bound = *(void *const *)(info->dlpi_addr + from[i].r_offset);
        const void *object = object_of(bound, &there),
                   *own = object_of((void *)(info->dlpi_addr + from[i].r_offset), NULL);
        if (object == r->ours || object == own || !object || is_sanitizer(there))
            continue; /* ours, or not bound yet */
        r->past++;
        fprintf(r->out, "weft-hook: %s calls %s of %s, past the hook%s\n",
                info->dlpi_name[0] ? base_name(info->dlpi_name) : "the program", name, base_name(there),
                dlsym(RTLD_DEFAULT, name) == bound
                    ? ": that stands before libweft-hook in the link order"
                    : ": it was loaded with RTLD_DEEPBIND, or linked to a version of its own");
    }
}

static int look_at_object(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct report *r = arg;
    (void)size;
    struct tables t = read_tables(info);
    const char *name = base_name(info->dlpi_name);
    if (!t.strings || !t.symbols || strncmp(name, "linux-vdso", 10) == 0 || strncmp(name, "libweft", 7) == 0 ||
        strncmp(name, "libc.so", 7) == 0 || strncmp(name, "ld-linux", 8) == 0)
        return 0; /* those that are meant to go past them, and those that always do */
    look_at(r, info, &t, t.jumps, t.jump_bytes);
    look_at(r, info, &t, t.others, t.other_bytes);
    return 0;
}

int weft_hook_report(FILE *out)
{
    if (!out)
        return -EINVAL;
    struct report r = {.out = out, .ours = object_of((const void *)weft_hook_report, NULL)};
    int live = 0, by_way = 0;
    for (size_t i = 0; i < NAMES; i++) {
        const char *path = "nobody";
        const void *first = dlsym(RTLD_DEFAULT, names[i]);
        if (first && object_of(first, &path) == r.ours) {
            live++;
            continue;
        }
        if (is_sanitizer(path)) { /* its function goes on to ours */
            by_way++;
            continue;
        }
        r.past++;
        fprintf(
            out,
            "weft-hook: %s is not live: %s stands before libweft-hook; link with -lweft-hook first, or preload it\n",
            names[i], base_name(path));
    }
    dl_iterate_phdr(look_at_object, &r);
    if (by_way > 0)
        fprintf(out, "weft-hook: %d names are reached by way of a sanitizer's functions\n", by_way);
    fprintf(out,
            "weft-hook: these need no hook, as they do not wait or nothing is kept: shutdown popen socket socketpair "
            "pipe2 dup fcntl ioctl getsockopt epoll_ctl fork vfork\n");
    fprintf(out, "weft-hook: %s, driver %s: %d of %d names are live, %d go past them\n", wf_hooks_on ? "on" : "off",
            weft_io_backend(), live + by_way, NAMES, r.past);
    return r.past;
}

__attribute__((constructor(103))) static void tell(void)
{
    const char *how = getenv("WEFT_HOOK");
    if (how && strcmp(how, "verbose") == 0)
        weft_hook_report(stderr);
}
