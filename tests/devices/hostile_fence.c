/* hostile_fence.c: implements cl_khr_external_semaphore_sync_fd with sockets, which become readable
 * when the command is done. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/devices/hostile_cl.h"

typedef struct semaphore {
    bool signalled; /* whether the command is done; cleared when a file is made */
    int file;
} semaphore;

void hostile_fence_extensions(char *text)
{
    if (hostile_lie(lie_fences, 0))
        strcat(text,
               " cl_khr_semaphore cl_khr_external_semaphore cl_khr_external_semaphore_sync_fd");
}

static semaphore *create(cl_context c, const cl_ulong *properties, cl_int *error)
{
    ENTER_CREATE(clCreateSemaphoreWithPropertiesKHR, error);
    static const cl_ulong known[] = {0x203D, 1, 0x203F, 0x2058, 0, 0};
    semaphore *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    if (!c || memcmp(properties, known, sizeof known) != 0) {
        free(s);
        *error = CL_INVALID_PROPERTY;
        return NULL;
    }
    *error = CL_SUCCESS;
    born(SEMAPHORE, s);
    return s;
}

static cl_int release(semaphore *s)
{
    if (!dies(SEMAPHORE, s))
        return CL_INVALID_VALUE;
    if (s->signalled)
        close(s->file);
    free(s);
    return CL_SUCCESS;
}

/* The file may already be closed. */
static void CL_CALLBACK send_end(cl_event e, cl_int status, void *end)
{
    const int fd = (int)(intptr_t)end;
    (void)status;
    send(fd, "", 1, MSG_NOSIGNAL);
    close(fd);
    real.clReleaseEvent(e);
}

static cl_int enqueue_signal(cl_command_queue q, cl_uint n, semaphore *const *s,
                             const cl_ulong *payloads, cl_uint waits, const cl_event *wait,
                             cl_event *event)
{
    ENTER(clEnqueueSignalSemaphoresKHR);
    int end[2];
    cl_event done;
    if (n != 1 || payloads || event)
        return CL_INVALID_VALUE;
    if ((*s)->signalled)
        misused("a semaphore is signalled twice");
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, end) != 0)
        abort();
    const cl_int error = enqueued(real.clEnqueueMarkerWithWaitList(q, waits, wait, &done), q, false,
                                  waits, wait, NULL);
    if (error != CL_SUCCESS) {
        close(end[0]);
        close(end[1]);
        return error;
    }
    **s = (semaphore){.signalled = true, .file = end[0]};
    return when_done(done, CL_COMPLETE, send_end, (void *)(intptr_t)end[1]);
}

static cl_int export_file(semaphore *s, cl_device_id d, cl_uint type, size_t size, void *out,
                          size_t *need)
{
    ENTER(clGetSemaphoreHandleForTypeKHR);
    if (!d || type != 0x2058 || size != sizeof s->file || need)
        return CL_INVALID_VALUE;
    if (!s->signalled)
        misused("a file of a semaphore that nothing signals");
    memcpy(out, &s->file, sizeof s->file);
    s->signalled = false;
    return CL_SUCCESS;
}

bool hostile_fence_function(const char *name, void **out)
{
    const struct {
        const char *name;
        void *function;
    } known[] = {
        {"clCreateSemaphoreWithPropertiesKHR", *(void **)&(__typeof__(&create)){create}},
        {"clReleaseSemaphoreKHR", *(void **)&(__typeof__(&release)){release}},
        {"clEnqueueSignalSemaphoresKHR", *(void **)&(__typeof__(&enqueue_signal)){enqueue_signal}},
        {"clGetSemaphoreHandleForTypeKHR", *(void **)&(__typeof__(&export_file)){export_file}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(name, known[i].name)) {
            *out = hostile_lie(lie_fences, 0) == 1 ? known[i].function : NULL;
            return true;
        }
    return false;
}
