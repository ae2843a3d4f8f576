/* no_stdin.c: defines `stdin` for the library, which contains Debian's static jansson. That was
 * compiled for programs, and refers to `stdin` in a way that a shared library cannot resolve. Only
 * json_loadf reads it, to name a source in messages, and Fovea does not call json_loadf. */

__attribute__((visibility("hidden"))) void *stdin;
