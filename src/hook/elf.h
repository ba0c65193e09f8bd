/*
 * hook/elf.h: what a loaded object's dynamic section says, for those that read its tables.
 */
#ifndef WF_HOOK_ELF_H
#define WF_HOOK_ELF_H

#include <link.h>
#include <stddef.h>

/* The section; NULL: it has none. */
static inline const ElfW(Dyn) * wf_dynamic_of(const struct dl_phdr_info *info)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            return (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    }
    return NULL;
}

/* What a value in it points to. The loader has added `base` there, but on processors where it may not write (riscv64). */
static inline const void *wf_dynamic_pointer(ElfW(Addr) base, ElfW(Addr) value)
{
    return (const void *)(value < base ? base + value : value);
}

#endif
