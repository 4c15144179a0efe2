#include "tests/support/frozen_seal.h"

#include <string.h>

static bool is_inside(const file_section_t *section, size_t n)
{
    return section->offset <= n && section->bytes <= n - section->offset;
}

static void seal(char *bytes, size_t n, file_section_t *section)
{
    if (is_inside(section, n))
        section->checksum = file_checksum(bytes + section->offset, section->bytes, 0);
}

void frozen_seal(void *bytes, size_t n)
{
    file_header_t header;
    if (n < sizeof header) return;
    char *at = bytes;
    memcpy(&header, at, sizeof header);
    if (is_inside(&header.machines, n))
        for (size_t i = 0; i < header.machines.bytes / sizeof(file_machine_t); i++) {
            file_machine_t machine;
            char *place = at + header.machines.offset + i * sizeof machine;
            memcpy(&machine, place, sizeof machine);
            seal(at, n, &machine.hints);
            memcpy(place, &machine, sizeof machine);
        }
    if (is_inside(&header.blobs, n))
        for (size_t i = 0; i < header.blobs.bytes / sizeof(file_blob_t); i++) {
            file_blob_t blob;
            char *place = at + header.blobs.offset + i * sizeof blob;
            memcpy(&blob, place, sizeof blob);
            seal(at, n, &blob.at);
            memcpy(place, &blob, sizeof blob);
        }
    seal(at, n, &header.text);
    seal(at, n, &header.machines);
    seal(at, n, &header.blobs);
    header.file_bytes = n;
    header.checksum = file_checksum(&header, offsetof(file_header_t, checksum), 0);
    memcpy(at, &header, sizeof header);
}
