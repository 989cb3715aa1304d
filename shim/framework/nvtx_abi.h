/*
 * nvtx_abi.h - the binary interface between NVTX v3 and its injection library, as far as we use it.
 *
 * Declared here so that the shim builds without NVTX's headers; a test compiles it against the real ones.
 */
#ifndef VS_FRAMEWORK_NVTX_ABI_H
#define VS_FRAMEWORK_NVTX_ABI_H

#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

enum { NVTX_TABLE_CALLBACKS = 1, NVTX_TABLE_VERSION = 3 };
enum { NVTX_CORE = 1, NVTX_CORE2 = 5 };

enum nvtx_core { /* up to the last that is ours */
                 CORE_MARK_EX = 1,
                 CORE_MARK_A,
                 CORE_MARK_W,
                 CORE_START_EX,
                 CORE_START_A,
                 CORE_START_W,
                 CORE_END,
                 CORE_PUSH_EX,
                 CORE_PUSH_A,
                 CORE_PUSH_W,
                 CORE_POP,
                 CORE_SLOTS
};

enum nvtx_core2 {
    CORE2_MARK_EX = 1,
    CORE2_START_EX,
    CORE2_END,
    CORE2_PUSH_EX,
    CORE2_POP,
    CORE2_STRING_A = 10,
    CORE2_STRING_W,
    CORE2_DOMAIN_A,
    CORE2_DOMAIN_W,
    CORE2_SLOTS
};

enum { NVTX_TEXT_ASCII = 1, NVTX_TEXT_WIDE = 2, NVTX_TEXT_REGISTERED = 3 };
#define NVTX_NOT_TRACKED (-2)

union nvtx_text {
    const char *ascii;
    const wchar_t *wide;
    void *registered;
};

struct nvtx_attributes { /* of an event */
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t text_type;
    union nvtx_text text;
};

typedef void nvtx_function(void);
struct nvtx_callbacks {
    size_t struct_size;
    int (*get_table)(int module, nvtx_function ****table, unsigned *slots);
};
typedef const void *nvtx_get_export_table(uint32_t id);

/* Extensions: a program's copy of NVTX passes a module's slots, which begin as no-ops. */
enum { NVTX_VERSION_3 = 3, NVTX_EXTENSION_PAYLOAD = 2 };
enum { NVTX_PAYLOADS_FIRST = 0x0103, NVTX_PAYLOADS_LAST = 0x0104 }; /* compatible: those with these slots */
enum nvtx_payload {
    PAYLOAD_MARK = 2,
    PAYLOAD_PUSH,
    PAYLOAD_POP,
    PAYLOAD_START,
    PAYLOAD_END,
};

struct nvtx_segment {
    size_t id, slots;
    intptr_t *functions;
};

struct nvtx_extension {
    uint16_t version, struct_size, module, compatible;
    size_t segment_count;
    struct nvtx_segment *segments;
    intptr_t (*get_function)(uint32_t id);
    const void *info;
};

#endif
