/* SHA-256 of one block of memory (FIPS 180-4), as 64 lower-case hexadecimal digits. */
#ifndef GROUNDBOX_SHA256_H
#define GROUNDBOX_SHA256_H

#include <stddef.h>

void sha256_hex(const void *data, size_t size, char out[64]);

#endif
