/* camera.c: runs a model on the newest frame of a camera, with a deadline and statistics.
 *
 *   cc camera.c -o camera $(pkg-config --cflags --libs fovea) -pthread
 *   ./camera [MODEL [SECONDS [/dev/videoN|- [DEVICE]]]]
 *
 * Without a camera, the program draws pictures of 640 x 480 pixels 30 times a second. One thread
 * reads frames, and the main thread runs the model. If the model is slower than the camera, frames
 * must not queue up. Only the newest frame waits; an older waiting frame is dropped.
 *
 *     camera --> fovea_mailbox --> fovea_submit_external_image --> label, latency
 *        ^         | dropped       fovea_mailbox_wait         | finished
 *        +---------+------------------------------------------+
 *
 * Each of the camera's few buffers is imported once, as a dma-buf if the driver exports one. The
 * device then reads frames in place.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <fovea/fovea.h>

#ifdef __linux__
#include <fcntl.h>
#include <linux/videodev2.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    return 1;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void sleep_until(double when)
{
    const struct timespec t = {(time_t)when, (long)((when - (double)(time_t)when) * 1e9)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        ;
}

/* ---- the camera ---- */

/* One buffer is being filled, one waits, one is in use by the model, one is being returned. */
enum { BUFFERS = 4 };

struct buffer {
    unsigned char *bytes; /* luma, followed by chroma if the format has it */
    int dmabuf;           /* file descriptor of the same memory as a dma-buf; -1: not available */
    double taken;         /* time of the frame in seconds */
    atomic_int is_free;   /* used for drawn frames */
};

struct camera {
    uint32_t width, height;
    fovea_pixel_format format;
    fovea_yuv_matrix yuv; /* matrix and range of the colours */
    size_t stride;
    double rate; /* frames per second */
    struct buffer buffer[BUFFERS];
    int fd; /* -1: frames are drawn */
    /* Used for drawn frames: */
    double next;
    unsigned drawn;
};

static int draw_open(struct camera *c)
{
    *c = (struct camera){.width = 640, .height = 480, .stride = 640, .rate = 30, .fd = -1};
    c->format = FOVEA_FORMAT_NV12;
    for (int i = 0; i < BUFFERS; i++) {
        struct buffer *b = &c->buffer[i];
        b->bytes = malloc(c->stride * c->height * 3 / 2);
        b->dmabuf = -1;
        b->is_free = 1;
        if (!b->bytes)
            return fail("camera", "out of memory");
    }
    return 0;
}

/* Draws a bar that moves over a grey ramp. */
static void draw(const struct camera *c, unsigned char *luma, unsigned number)
{
    const uint32_t bar = number * 8 % c->width;
    for (uint32_t y = 0; y < c->height; y++)
        for (uint32_t x = 0; x < c->width; x++)
            luma[y * c->stride + x] =
                (unsigned char)(x >= bar && x < bar + 40 ? 235 : 16 + (x + y) % 200);
    memset(luma + c->stride * c->height, 128, c->stride * c->height / 2);
}

/* Waits for the next frame, and returns its buffer, which the caller must pass to camera_return().
 * Returns NULL if no frame arrives. */
static struct buffer *camera_next(struct camera *c)
{
#ifdef __linux__
    if (c->fd >= 0) {
        struct v4l2_buffer b = {.type = V4L2_BUF_TYPE_VIDEO_CAPTURE, .memory = V4L2_MEMORY_MMAP};
        if (ioctl(c->fd, VIDIOC_DQBUF, &b) < 0)
            return NULL;
        c->buffer[b.index].taken = now();
        return &c->buffer[b.index];
    }
#endif
    c->next = (c->drawn ? c->next : now()) + 1 / c->rate;
    sleep_until(c->next);
    struct buffer *b = c->buffer;
    while (!atomic_exchange(&b->is_free, 0)) /* at most three of the four are in use */
        b++;
    draw(c, b->bytes, c->drawn++);
    b->taken = now();
    return b;
}

/* Returns a buffer to the camera. Both threads call it; it is also the mailbox's `drop`. */
static void camera_return(void *camera, void *buffer)
{
    struct buffer *returned = buffer;
#ifdef __linux__
    const struct camera *c = camera;
    if (c->fd >= 0) {
        struct v4l2_buffer b = {.type = V4L2_BUF_TYPE_VIDEO_CAPTURE, .memory = V4L2_MEMORY_MMAP};
        b.index = (uint32_t)(returned - c->buffer);
        ioctl(c->fd, VIDIOC_QBUF, &b);
        return;
    }
#endif
    (void)camera;
    atomic_store(&returned->is_free, 1);
}

#ifdef __linux__
/* Returns the matrix and range of the colours: those that the driver reports, else those of the
 * rule for cameras. */
static fovea_yuv_matrix colours_of(const struct v4l2_pix_format *f)
{
    fovea_colours c = FOVEA_COLOURS_INIT;
    fovea_yuv_matrix yuv = FOVEA_YUV_601;
    c.origin = FOVEA_ORIGIN_CAMERA;
    c.layout = f->pixelformat == V4L2_PIX_FMT_NV12 ? FOVEA_LAYOUT_NV12 : FOVEA_LAYOUT_YUYV422;
    c.height = f->height;
    const int said = f->ycbcr_enc != V4L2_YCBCR_ENC_DEFAULT ? (int)f->ycbcr_enc
                     : f->colorspace != V4L2_COLORSPACE_DEFAULT
                         ? (int)V4L2_MAP_YCBCR_ENC_DEFAULT(f->colorspace)
                         : V4L2_YCBCR_ENC_DEFAULT;
    if (said == V4L2_YCBCR_ENC_601)
        c.coefficients = FOVEA_COEFFICIENTS_601;
    else if (said == V4L2_YCBCR_ENC_709)
        c.coefficients = FOVEA_COEFFICIENTS_709;
    else if (said == V4L2_YCBCR_ENC_BT2020)
        c.coefficients = FOVEA_COEFFICIENTS_2020;
    if (f->quantization == V4L2_QUANTIZATION_FULL_RANGE)
        c.range = FOVEA_RANGE_FULL;
    else if (f->quantization == V4L2_QUANTIZATION_LIM_RANGE)
        c.range = FOVEA_RANGE_LIMITED;
    (void)fovea_yuv_matrix_choose(&yuv, &c); /* cannot fail, because all values are valid */
    return yuv;
}

/* Requests the driver's buffers. Fovea reads frames in these buffers with the driver's strides. If
 * the driver exports no dma-bufs, its memory is mapped. */
static int v4l2_open(struct camera *c, const char *path)
{
    *c = (struct camera){.width = 640, .height = 480, .rate = 30};
    c->fd = open(path, O_RDWR);
    if (c->fd < 0)
        return fail(path, strerror(errno));
    struct v4l2_format f = {.type = V4L2_BUF_TYPE_VIDEO_CAPTURE};
    f.fmt.pix.width = c->width;
    f.fmt.pix.height = c->height;
    /* a driver that does not have this format selects another */
    f.fmt.pix.pixelformat = V4L2_PIX_FMT_NV12;
    if (ioctl(c->fd, VIDIOC_S_FMT, &f) == 0 && f.fmt.pix.pixelformat != V4L2_PIX_FMT_NV12) {
        f.fmt.pix.pixelformat = V4L2_PIX_FMT_YUYV;
        ioctl(c->fd, VIDIOC_S_FMT, &f);
    }
    c->format = f.fmt.pix.pixelformat == V4L2_PIX_FMT_NV12 ? FOVEA_FORMAT_NV12 : FOVEA_FORMAT_YUYV;
    if (c->format == FOVEA_FORMAT_YUYV && f.fmt.pix.pixelformat != V4L2_PIX_FMT_YUYV)
        return fail(path, "gives neither NV12 nor YUYV");
    c->yuv = colours_of(&f.fmt.pix);
    c->width = f.fmt.pix.width;
    c->height = f.fmt.pix.height;
    c->stride = f.fmt.pix.bytesperline;
    struct v4l2_requestbuffers r = {
        .count = BUFFERS, .type = V4L2_BUF_TYPE_VIDEO_CAPTURE, .memory = V4L2_MEMORY_MMAP};
    if (ioctl(c->fd, VIDIOC_REQBUFS, &r) < 0 || r.count != BUFFERS)
        return fail(path, "gives no buffers");
    for (int i = 0; i < BUFFERS; i++) {
        struct v4l2_buffer b = {.type = r.type, .memory = r.memory, .index = (uint32_t)i};
        if (ioctl(c->fd, VIDIOC_QUERYBUF, &b) < 0)
            return fail(path, strerror(errno));
        struct v4l2_exportbuffer e = {.type = r.type, .index = (uint32_t)i, .flags = O_CLOEXEC};
        struct buffer *own = &c->buffer[i];
        own->dmabuf = ioctl(c->fd, VIDIOC_EXPBUF, &e) < 0 ? -1 : e.fd;
        if (own->dmabuf < 0)
            own->bytes = mmap(NULL, b.length, PROT_READ, MAP_SHARED, c->fd, b.m.offset);
        if (own->bytes == MAP_FAILED || ioctl(c->fd, VIDIOC_QBUF, &b) < 0)
            return fail(path, strerror(errno));
    }
    int type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
    return ioctl(c->fd, VIDIOC_STREAMON, &type) < 0 ? fail(path, strerror(errno)) : 0;
}
#endif

/* ---- the thread that reads frames ---- */

struct bringer {
    struct camera *camera;
    fovea_mailbox *mailbox;
    atomic_int stop;
};

/* Passes the camera's frames to the mailbox. The deadline of each frame is the time of the next
 * one, after 1 / rate seconds. */
static void *bring_frames(void *arg)
{
    struct bringer *b = arg;
    struct buffer *buffer;
    while (!atomic_load(&b->stop) && (buffer = camera_next(b->camera)))
        fovea_mailbox_put(b->mailbox, buffer, 1 / b->camera->rate);
    fovea_mailbox_end(b->mailbox);
    return NULL;
}

/* ---- the model ---- */

struct model {
    fovea_device *device;
    fovea_model *model;
    fovea_plan *plan;
    fovea_external_image *image[BUFFERS];
    fovea_output out;
    uint32_t classes;
};

static int import_buffer(struct model *m, const struct camera *c, int i)
{
    fovea_external_image_options options = FOVEA_EXTERNAL_IMAGE_OPTIONS_INIT;
    options.kind = c->buffer[i].dmabuf < 0 ? FOVEA_EXTERNAL_HOST : FOVEA_EXTERNAL_DMABUF;
    options.format = c->format;
    options.width = c->width;
    options.height = c->height;
    for (int k = 0; k < 2; k++) {
        options.plane[k].memory = c->buffer[i].bytes;
        options.plane[k].fd = c->buffer[i].dmabuf;
        options.plane[k].stride = c->stride;
    }
    options.plane[1].offset = c->stride * c->height; /* chroma follows luma, if the format has it */
    return fovea_external_image_import(&m->image[i], m->device, &options)
               ? fail("buffer", fovea_error())
               : 0;
}

/* Prints how frames are transferred to the device, which is the same for all buffers. */
static void tell_transfer(const struct model *m)
{
    static const char *const how[] = {"read in place", "copied by the device",
                                      "copied by the host"};
    fovea_external_image_info info = FOVEA_EXTERNAL_IMAGE_INFO_INIT;
    fovea_external_image_query(m->image[0], &info);
    printf("frames are %s (%s)%s%s\n", how[info.transfer], info.method, *info.reason ? ": " : "",
           info.reason);
}

static int model_open(struct model *m, const char *name, const char *device, const struct camera *c)
{
    fovea_preprocess rule = FOVEA_PREPROCESS_INIT;
    fovea_output_info logits = FOVEA_OUTPUT_INFO_INIT;
    fovea_plan_options options = FOVEA_PLAN_OPTIONS_INIT;
    if (fovea_device_open(&m->device, device, NULL) || fovea_model_load(&m->model, name))
        return fail("model", fovea_error());
    fovea_model_preprocess(m->model, &rule);
    options.frame.format = c->format;
    options.yuv = c->yuv;
    options.frame.width = c->width;
    options.frame.height = c->height;
    options.preprocess = &rule; /* pictures are resized as in the model's training */
    options.attention = "linear";
    options.on_device_lost = FOVEA_DEVICE_LOST_CPU;
    if (fovea_plan_create(&m->plan, m->model, m->device, &options))
        return fail("plan", fovea_error());
    for (int i = 0; i < BUFFERS; i++)
        if (import_buffer(m, c, i))
            return 1;
    tell_transfer(m);
    fovea_plan_output(m->plan, 0, &logits);
    m->classes = logits.rows * logits.columns;
    m->out.size = m->classes * sizeof(float);
    m->out.data = malloc(m->out.size);
    return m->out.data ? 0 : fail("model", "out of memory");
}

static uint32_t best(const struct model *m)
{
    const float *logits = m->out.data;
    uint32_t top = 0;
    for (uint32_t i = 1; i < m->classes; i++)
        top = logits[i] > logits[top] ? i : top;
    return top;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Runs a frame. A late frame is counted, but is still completed, because it cannot be cancelled. */
static fovea_status compute(struct model *m, fovea_mailbox *mailbox, int i)
{
    fovea_ticket ticket;
    fovea_status status =
        fovea_submit_external_image(m->plan, m->image[i], NULL, &m->out, 1, &ticket);
    if (status == FOVEA_OK)
        status = fovea_mailbox_wait(mailbox, m->plan, ticket);
    return status == FOVEA_ETIMEOUT ? fovea_wait(m->plan, ticket, -1) : status;
}

enum { MOST = 100000 }; /* largest number of recorded latencies */

int main(int argc, char **argv)
{
    static double latency[MOST];
    struct camera camera;
    struct model model = {0};
    const double seconds = argc > 2 ? atof(argv[2]) : 5;
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return puts("usage: camera [MODEL [SECONDS [/dev/videoN|- [DEVICE]]]]") < 0;
#ifdef __linux__
    if (argc > 3 && strcmp(argv[3], "-") ? v4l2_open(&camera, argv[3]) : draw_open(&camera))
        return 1;
#else
    if (draw_open(&camera))
        return 1;
#endif
    if (model_open(&model, argc > 1 ? argv[1] : "synthetic:vit-ti16", argc > 4 ? argv[4] : "cpu",
                   &camera))
        return 1;

    fovea_mailbox_options options = FOVEA_MAILBOX_OPTIONS_INIT;
    fovea_mailbox_info frames = FOVEA_MAILBOX_INFO_INIT;
    struct bringer bringer = {.camera = &camera};
    pthread_t thread;
    options.drop = camera_return;
    options.ctx = &camera;
    if (fovea_mailbox_create(&bringer.mailbox, &options))
        return fail("camera", fovea_error());
    if (pthread_create(&thread, NULL, bring_frames, &bringer))
        return fail("camera", "no thread");

    const double begin = now();
    unsigned done = 0, label = 0;
    void *frame;
    while (done < MOST && now() - begin < seconds &&
           fovea_mailbox_take(bringer.mailbox, 10, &frame) == FOVEA_OK && frame) {
        struct buffer *buffer = frame;
        if (compute(&model, bringer.mailbox, (int)(buffer - camera.buffer)))
            return fail("frame", fovea_error());
        label = best(&model);
        latency[done++] = now() - buffer->taken;
        camera_return(&camera, buffer);
    }
    const double took = now() - begin;
    fovea_mailbox_query(bringer.mailbox, &frames);
    atomic_store(&bringer.stop, 1);
    pthread_join(thread, NULL);
    fovea_mailbox_free(bringer.mailbox);
    if (!done)
        return fail("camera", "no frame came");

    qsort(latency, done, sizeof *latency, ascending);
    const char *name = fovea_model_label(model.model, label);
    printf("%.1f frames/s of %.1f; latency p50 %.1f ms, p95 %.1f, p99 %.1f; %u dropped; %u later "
           "than %.1f ms; the last one: %s\n",
           done / took, (double)frames.put / took, 1e3 * latency[done / 2],
           1e3 * latency[done * 95 / 100], 1e3 * latency[done * 99 / 100],
           (unsigned)(frames.replaced + frames.expired), (unsigned)frames.late, 1e3 / camera.rate,
           name ? name : "no label");
    fovea_plan_free(model.plan);
    for (int k = 0; k < BUFFERS; k++)
        fovea_external_image_free(model.image[k]);
    fovea_model_free(model.model);
    fovea_device_close(model.device);
    free(model.out.data);
    for (int k = 0; k < BUFFERS && camera.fd < 0; k++)
        free(camera.buffer[k].bytes);
    return 0;
}
