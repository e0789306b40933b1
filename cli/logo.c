/* SPDX-License-Identifier: BSD-3-Clause */
/* logo.c - the files of logos/ as bytes, which the build makes (declared in kernelspec.h). */
#include "cli/kernelspec.h"

/* Each of these is a file of logos/ as bytes, made by the build. */
static const unsigned char logo_32[] = {
#include "cli/logo-32x32.inc"
};
static const unsigned char logo_64[] = {
#include "cli/logo-64x64.inc"
};
static const unsigned char logo_svg[] = {
#include "cli/logo-svg.inc"
};

#define IMAGE(bytes) { (const char *)(bytes), sizeof(bytes) }

const struct logo logos[] = {
    { "logo-32x32.png", IMAGE(logo_32) },
    { "logo-64x64.png", IMAGE(logo_64) },
    { "logo-svg.svg", IMAGE(logo_svg) },
    { NULL, { NULL, 0 } },
};
