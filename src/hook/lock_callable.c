/*
 * hook/lock_callable.c: what std::call_once tells its function through: two variables of libstdc++, that each thread has.
 * While a fiber waits another may change them, and it may go on on another thread.
 *
 * They are found without the loader's lock: a dlopen holds it while its constructors run, and one of those may wait for
 * the same once. Those of the program's own libstdc++ are looked up when the hooks are set up. Another one is that of a
 * plugin, which is not in sight of the program: its variables are in the object that the function is in.
 */
#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "hook/elf.h"
#include "hook/lock.h"

#define FUNCTION "__once_proxy" /* what std::call_once gives pthread_once */

static const char *const names[WF_CALLABLES] = {"_ZSt15__once_callable", "_ZSt11__once_call"};

/* As the compilers have it; the loader takes this much for granted in an offset. */
struct tls_index {
    unsigned long module, offset;
};

#ifdef __riscv
enum { TLS_BIAS = 0x800 };
#else
enum { TLS_BIAS = 0 };
#endif

extern void *__tls_get_addr(struct tls_index *index);

/* Const after the constructor: the program's function and variables. NULL: it has none. */
static void *program_function;
static struct wf_callable program;

/* ---- the symbols that an object has ---- */

struct table {
    const ElfW(Sym) * symbols;
    const char *strings;
    const uint32_t *hash; /* counts, a filter, buckets and chains, as DT_GNU_HASH has them */
};

static bool read_table(ElfW(Addr) base, const ElfW(Dyn) * dynamic, struct table *out)
{
    *out = (struct table){0};
    for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
        if (dynamic->d_tag == DT_SYMTAB)
            out->symbols = wf_dynamic_pointer(base, dynamic->d_un.d_ptr);
        else if (dynamic->d_tag == DT_STRTAB)
            out->strings = wf_dynamic_pointer(base, dynamic->d_un.d_ptr);
        else if (dynamic->d_tag == DT_GNU_HASH)
            out->hash = wf_dynamic_pointer(base, dynamic->d_un.d_ptr);
    }
    return out->symbols && out->strings && out->hash;
}

static uint32_t hash_of(const char *name)
{
    uint32_t hash = 5381;
    for (; *name; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash;
}

static const ElfW(Sym) * find(const struct table *t, const char *name)
{
    uint32_t buckets = t->hash[0], first = t->hash[1], words = t->hash[2], wanted = hash_of(name);
    const uint32_t *bucket = (const uint32_t *)((const ElfW(Addr) *)(t->hash + 4) + words);
    const uint32_t *chain = bucket + buckets;
    uint32_t i = buckets != 0 ? bucket[wanted % buckets] : 0;
    for (; i != 0 && i >= first; i++) {
        uint32_t hash = chain[i - first]; /* its last bit says that it is the last */
        if ((hash | 1) == (wanted | 1) && strcmp(t->strings + t->symbols[i].st_name, name) == 0)
            return &t->symbols[i];
        if (hash & 1)
            break;
    }
    return NULL;
}

/* Whether the object has the variables. The module is another question. */
static bool find_variables(const struct table *t, struct wf_callable *out)
{
    for (int i = 0; i < WF_CALLABLES; i++) {
        const ElfW(Sym) *symbol = find(t, names[i]);
        if (!symbol || symbol->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol->st_info) != STT_TLS)
            return false;
        out->offsets[i] = symbol->st_value;
    }
    return true;
}

/* ---- where they are ---- */

static int look_at_object(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct table t;
    (void)size;
    (void)arg;
    if (!read_table(info->dlpi_addr, wf_dynamic_of(info), &t))
        return 0;
    /* A program at a fixed address has a function of its own that jumps there, and that is its address for all. */
    const ElfW(Sym) *function = find(&t, FUNCTION);
    if (!program_function && function && function->st_value != 0)
        program_function = (void *)(info->dlpi_addr + function->st_value);
    if (program.module == 0 && info->dlpi_tls_modid != 0 && find_variables(&t, &program))
        program.module = info->dlpi_tls_modid;
    return program_function && program.module != 0;
}

__attribute__((constructor(103))) static void set_up(void)
{
    if (wf_locks_on)
        dl_iterate_phdr(look_at_object, NULL);
}

/* dlinfo takes no lock for this; where there is no such function nothing that dlerror would tell is touched. */
static struct wf_callable find_by(void (*fn)(void))
{
    struct wf_callable c = {0};
    struct dl_find_object found;
    struct table t;
    if (program_function && (void *)fn == program_function)
        return program;
    if (_dl_find_object((void *)fn, &found) != 0)
        return c;
    struct link_map *map = found.dlfo_link_map;
    if (read_table(map->l_addr, map->l_ld, &t) && find_variables(&t, &c) &&
        dlinfo(map, RTLD_DI_TLS_MODID, &c.module) != 0)
        c.module = 0;
    return c;
}

static void **variable_here(const struct wf_callable *c, int which)
{
    return __tls_get_addr(&(struct tls_index){c->module, c->offsets[which] - TLS_BIAS});
}

struct wf_callable wf_callable_keep(void (*fn)(void))
{
    struct wf_callable c = find_by(fn);
    for (int i = 0; i < WF_CALLABLES && c.module != 0; i++)
        c.values[i] = *variable_here(&c, i);
    return c;
}

void wf_callable_put_back(const struct wf_callable *c)
{
    for (int i = 0; i < WF_CALLABLES && c->module != 0; i++)
        *variable_here(c, i) = c->values[i];
}
