/* no_stdin.c: lets the library have Debian's static jansson inside, which was compiled for
 * programs: it asks for `stdin` where a shared library cannot have it. Only json_loadf compares it
 * with what it is given, to name a source in messages, and is not used. */

__attribute__((visibility("hidden"))) void *stdin;
