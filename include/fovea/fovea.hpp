/* fovea.hpp: fovea.h for C++17, header-only. Objects of the library are classes that free
 * themselves, and that can be moved but not copied. They use the structs, names and rules of
 * fovea.h.
 *
 * A failure throws fovea::error:
 *
 *     fovea::device device("cpu");
 *     fovea::model model("dinov2-base");
 *     fovea_plan_options options = FOVEA_PLAN_OPTIONS_INIT;
 *     options.frame.width = 1920;
 *     options.frame.height = 1080;
 *     options.attention = "linear:elu1";
 *     fovea::plan plan(model, device, options);
 *     std::vector<float> features = plan.buffer(0);
 *     while (next(camera))
 *         plan.run({{camera.rgb}}, {features});
 *
 * In a program without exceptions (-fno-exceptions, -fno-rtti), functions that create objects
 * return a fovea::result, and functions whose names begin with try_ return a status:
 *
 *     auto device = fovea::device::open("cpu");
 *     auto model = fovea::model::load("dinov2-base");
 *     if (!device || !model)
 *         return fail(fovea_error());
 *     auto plan = fovea::plan::create(*model, *device, options);
 *     ...
 *         if (fovea_status status = plan->try_run({{camera.rgb}}, {features})) */
#ifndef FOVEA_FOVEA_HPP
#define FOVEA_FOVEA_HPP

#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#if __has_include(<memory_resource>)
#include <memory_resource>
#endif
#include <new>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include <fovea/fovea.h>

namespace fovea
{

#if defined(__cpp_exceptions)
/* An exception whose what() is fovea_error(). */
class error : public std::runtime_error
{
  public:
    explicit error(fovea_status status) : std::runtime_error(fovea_error()), status_(status)
    {
    }
    fovea_status status() const noexcept
    {
        return status_;
    }

  private:
    fovea_status status_;
};

inline void check(fovea_status status)
{
    if (status != FOVEA_OK)
        throw error(status);
}
#endif

#if defined(__cpp_lib_memory_resource)
/* Lets the library allocate its memory from `resource`, by fovea_allocator_set, whose rules apply
 * here. Any thread may use the resource, as synchronized_pool_resource allows, and
 * unsynchronized_pool_resource does not. The resource must live until all of its memory has been
 * freed, and no other call may run. nullptr means the allocator of the C library. If the resource
 * throws or, without exceptions, returns nullptr, the call that needed the memory fails with
 * FOVEA_ENOMEM. */
inline fovea_status try_set_memory_resource(std::pmr::memory_resource *resource) noexcept
{
    if (!resource)
        return fovea_allocator_set(nullptr);
    fovea_allocator allocator = FOVEA_ALLOCATOR_INIT;
    allocator.user = resource;
    allocator.alloc = [](void *user, std::size_t size, std::size_t align) noexcept -> void * {
#if defined(__cpp_exceptions)
        try {
            return static_cast<std::pmr::memory_resource *>(user)->allocate(size, align);
        } catch (...) {
            return nullptr;
        }
#else
        return static_cast<std::pmr::memory_resource *>(user)->allocate(size, align);
#endif
    };
    allocator.free = [](void *user, void *data, std::size_t size, std::size_t align) noexcept {
        static_cast<std::pmr::memory_resource *>(user)->deallocate(data, size, align);
    };
    return fovea_allocator_set(&allocator);
}
#if defined(__cpp_exceptions)
inline void set_memory_resource(std::pmr::memory_resource *resource)
{
    check(try_set_memory_resource(resource));
}
#endif
#endif

/* A T, or the status that says why there is no T; fovea_error() then has the message. */
template <typename T> class [[nodiscard]] result
{
  public:
    explicit operator bool() const noexcept
    {
        return status_ == FOVEA_OK;
    }
    fovea_status status() const noexcept
    {
        return status_;
    }
    /* Call this only if the result is true. */
    T &operator*() noexcept
    {
        return value_;
    }
    T *operator->() noexcept
    {
        return &value_;
    }

  private:
    friend T;
    /* Calls create(&object, arguments...). */
    template <typename Create, typename... Arguments>
    explicit result(Create create, Arguments... arguments) noexcept
    {
        typename T::owner made{nullptr};
        status_ = create(&made.object, arguments...);
        value_ = T(made);
    }
#if defined(__cpp_exceptions)
    T take()
    {
        check(status_);
        return std::move(value_);
    }
#endif
    T value_{typename T::owner{nullptr}};
    fovea_status status_;
};

/* Owns an object of the library, and converts to the pointer that the functions of fovea.h accept.
 * After a move, the pointer is NULL, and the object may only be assigned to or destroyed. */
template <typename T, void (*Free)(T *)> class handle
{
  public:
    struct owner {
        T *object;
    };
    operator T *() const noexcept
    {
        return object_.get();
    }

  protected:
    explicit handle(owner object) noexcept : object_(object.object)
    {
    }

  private:
    struct freer {
        void operator()(T *object) const noexcept
        {
            Free(object);
        }
    };
    std::unique_ptr<T, freer> object_;
};

/* A device. It may be destroyed before its plans and states, which hold references. */
class device : public handle<fovea_device, fovea_device_close>
{
  public:
    static result<device> open(const char *id = "auto",
                               const fovea_device_options *options = nullptr) noexcept
    {
        return result<device>(fovea_device_open, id, options);
    }
#if defined(__cpp_exceptions)
    explicit device(const char *id = "auto", const fovea_device_options *options = nullptr)
        : device(open(id, options).take())
    {
    }
#endif
    fovea_device_info info() const
    {
        fovea_device_info out = FOVEA_DEVICE_INFO_INIT;
        fovea_device_describe(*this, &out);
        return out;
    }

  private:
    friend result<device>;
    explicit device(owner object) noexcept : handle(object)
    {
    }
};

class model : public handle<fovea_model, fovea_model_free>
{
  public:
    static result<model> load(const char *path,
                              const fovea_model_options *options = nullptr) noexcept
    {
        return result<model>(fovea_model_load_with, path, options);
    }
    /* Loads a model from memory, descriptors or callbacks. */
    static result<model> load(const fovea_model_source &source,
                              const fovea_model_options *options = nullptr) noexcept
    {
        return result<model>(fovea_model_load_from, &source, options);
    }
#if defined(__cpp_exceptions)
    explicit model(const char *path, const fovea_model_options *options = nullptr)
        : model(load(path, options).take())
    {
    }
    explicit model(const fovea_model_source &source, const fovea_model_options *options = nullptr)
        : model(load(source, options).take())
    {
    }
#endif
    fovea_model_info info() const
    {
        fovea_model_info out = FOVEA_MODEL_INFO_INIT;
        fovea_model_describe(*this, &out);
        return out;
    }
    /* Returns how the model's image processor preprocesses a picture, for plans. The caller may
     * change the result. */
    fovea_preprocess preprocess() const
    {
        fovea_preprocess out = FOVEA_PREPROCESS_INIT;
        fovea_model_preprocess(*this, &out);
        return out;
    }
    /* Returns the preprocessing for a result of width x height pixels, changed by
     * fovea_preprocess_resize. */
    fovea_status try_preprocess(fovea_preprocess &out, std::uint32_t width,
                                std::uint32_t height) const noexcept
    {
        out = preprocess();
        return fovea_preprocess_resize(&out, width, height);
    }
    /* Computes the pixels that the model reads of a picture: R, G, B bytes in packed rows, before
     * they are normalised. The picture has such bytes, too, and `plan` describes a plan with the
     * model's own preprocessing for pictures of that size. `out` is resized to plan.width x
     * plan.height pixels. */
    fovea_status try_preprocess(std::vector<std::uint8_t> &out, const std::uint8_t *rgb,
                                std::uint32_t width, std::uint32_t height,
                                const fovea_plan_info &plan) const
    {
        const fovea_preprocess rule = preprocess();
        out.resize(std::size_t{3} * plan.width * plan.height);
        return fovea_preprocess_apply(&rule, rgb, width, height, out.data(), plan.width,
                                      plan.height);
    }
#if defined(__cpp_exceptions)
    fovea_preprocess preprocess(std::uint32_t width, std::uint32_t height) const
    {
        fovea_preprocess out = FOVEA_PREPROCESS_INIT;
        check(try_preprocess(out, width, height));
        return out;
    }
    std::vector<std::uint8_t> preprocess(const std::uint8_t *rgb, std::uint32_t width,
                                         std::uint32_t height, const fovea_plan_info &plan) const
    {
        std::vector<std::uint8_t> out;
        check(try_preprocess(out, rgb, width, height, plan));
        return out;
    }
#endif
    /* Finds the precision that FOVEA_COMPUTE_AUTO uses for this model: the fastest precision for
     * which the outputs for these frames have a cosine of at least `bound` with the float32
     * outputs. */
    fovea_status try_tune_accuracy(fovea_accuracy_report &out, device &device,
                                   const fovea_plan_options &plan,
                                   const std::vector<fovea_frame> &frames, double bound,
                                   const fovea_tune_options *options = nullptr) const noexcept
    {
        return fovea_tune_accuracy(&out, *this, device, &plan, frames.data(), frames.size(), bound,
                                   options);
    }
#if defined(__cpp_exceptions)
    fovea_accuracy_report tune_accuracy(device &device, const fovea_plan_options &plan,
                                        const std::vector<fovea_frame> &frames, double bound,
                                        const fovea_tune_options *options = nullptr) const
    {
        fovea_accuracy_report out = FOVEA_ACCURACY_REPORT_INIT;
        check(try_tune_accuracy(out, device, plan, frames, bound, options));
        return out;
    }
#endif
    /* Returns the names of the outputs, which belong to the model. The main output is first. */
    std::vector<const char *> outputs() const
    {
        std::vector<const char *> names;
        while (const char *name = fovea_model_output(*this, names.size()))
            names.push_back(name);
        return names;
    }

  private:
    friend result<model>;
    explicit model(owner object) noexcept : handle(object)
    {
    }
};

/* Pixels in the memory of a camera or of another device. */
class external_image : public handle<fovea_external_image, fovea_external_image_free>
{
  public:
    static result<external_image> open(device &device,
                                       const fovea_external_image_options &options) noexcept
    {
        return result<external_image>(fovea_external_image_import,
                                      static_cast<fovea_device *>(device), &options);
    }
#if defined(__cpp_exceptions)
    external_image(device &device, const fovea_external_image_options &options)
        : external_image(open(device, options).take())
    {
    }
#endif
    fovea_external_image_info info() const
    {
        fovea_external_image_info out = FOVEA_EXTERNAL_IMAGE_INFO_INIT;
        fovea_external_image_query(*this, &out);
        return out;
    }

  private:
    friend result<external_image>;
    explicit external_image(owner object) noexcept : handle(object)
    {
    }
};

/* Converts frames of one size from a layout that plans do not read to a format that they do, and
 * owns the buffer for the conversion. */
class converter
{
  public:
    converter() = default;
    fovea_status try_open(fovea_layout layout, std::uint32_t width, std::uint32_t height,
                          fovea_yuv_matrix yuv)
    {
        fovea_layout_info info = FOVEA_LAYOUT_INFO_INIT;
        const fovea_status status = fovea_layout_query(layout, width, height, yuv, &info);
        if (status != FOVEA_OK)
            return status;
        layout_ = layout;
        yuv_ = yuv;
        width_ = width;
        height_ = height;
        info_ = info;
        buffer_.resize(info.buffer_size);
        return FOVEA_OK;
    }
    /* Returns the format of converted frames, and the planes of this layout. */
    const fovea_layout_info &info() const noexcept
    {
        return info_;
    }
    fovea_status try_convert(fovea_frame &out, const fovea_frame &in) noexcept
    {
        return fovea_layout_convert(&out, &in, layout_, width_, height_, yuv_, buffer_.data(),
                                    buffer_.size());
    }
#if defined(__cpp_exceptions)
    converter(fovea_layout layout, std::uint32_t width, std::uint32_t height, fovea_yuv_matrix yuv)
    {
        check(try_open(layout, width, height, yuv));
    }
    /* The result is valid until the next call, and as long as the pixels of `in`. */
    fovea_frame operator()(const fovea_frame &in)
    {
        fovea_frame out = {};
        check(try_convert(out, in));
        return out;
    }
#endif

  private:
    fovea_layout layout_ = FOVEA_LAYOUT_RGB24;
    fovea_yuv_matrix yuv_ = FOVEA_YUV_601;
    std::uint32_t width_ = 0, height_ = 0;
    fovea_layout_info info_ = FOVEA_LAYOUT_INFO_INIT;
    std::vector<std::uint8_t> buffer_;
};

/* A plan of a model for frames of one size. */
class plan : public handle<fovea_plan, fovea_plan_free>
{
  public:
    static result<plan> create(const model &model, device &device,
                               const fovea_plan_options &options) noexcept
    {
        return result<plan>(fovea_plan_create, static_cast<const fovea_model *>(model),
                            static_cast<fovea_device *>(device), &options);
    }
#if defined(__cpp_exceptions)
    plan(const model &model, device &device, const fovea_plan_options &options)
        : plan(create(model, device, options).take())
    {
    }
#endif
    fovea_plan_info info() const
    {
        fovea_plan_info out = FOVEA_PLAN_INFO_INIT;
        fovea_plan_query(*this, &out);
        return out;
    }
    /* Describes output `index`, in the order of the options. It must exist. */
    fovea_output_info output(std::size_t index) const
    {
        fovea_output_info out = FOVEA_OUTPUT_INFO_INIT;
        const int found = fovea_plan_output(*this, index, &out);
#if defined(__cpp_exceptions)
        if (!found)
            throw std::out_of_range("fovea::plan::output");
#endif
        assert(found);
        (void)found;
        return out;
    }
    /* Describes the attention of a block, whose queries are output `index`. */
    fovea_status attention(std::size_t index, fovea_attention_options &out) const
    {
        return fovea_plan_attention(*this, index, &out);
    }
    /* Returns the index of the first channel of patch (x, y) in the buffer of output `index`. */
    std::size_t offset(std::size_t index, std::uint32_t x, std::uint32_t y) const
    {
        const fovea_output_info info = output(index);
        const std::size_t row = info.prefix + std::size_t{y} * info.grid_width + x;
        return row * info.columns;
    }
    /* Returns a buffer for output `index`: rows * columns floats. */
    std::vector<float> buffer(std::size_t index) const
    {
        const fovea_output_info info = output(index);
        return std::vector<float>(std::size_t{info.rows} * info.columns);
    }
    using buffers = std::initializer_list<std::reference_wrapper<std::vector<float>>>;
    /* Returns one buffer for each of the plan's outputs, in their order; at most 64. */
    fovea_status try_run(const fovea_frame &frame, buffers outputs) noexcept
    {
        const given outs(outputs);
        return fovea_run(*this, &frame, outs.out, outs.count);
    }
    /* Runs several frames with a plan that has frame.count. `outputs` has the outputs of the first
     * frame, then those of the second, and so on. Fails with EINVAL if the number of outputs is not
     * that of these frames. */
    fovea_status try_run(const std::vector<fovea_frame> &frames,
                         const std::vector<fovea_output> &outputs) noexcept
    {
        fovea_output_info info = FOVEA_OUTPUT_INFO_INIT;
        std::size_t each = 0;
        while (fovea_plan_output(*this, each, &info))
            each++;
        const bool right = outputs.size() == frames.size() * each;
        return fovea_run(*this, frames.data(), outputs.data(), right ? outputs.size() : 0);
    }
    fovea_status try_run(const external_image &image, buffers outputs,
                         const fovea_acquire_fence *acquire = nullptr) noexcept
    {
        const given outs(outputs);
        return fovea_run_external_image(*this, image, acquire, outs.out, outs.count);
    }
#if defined(__cpp_exceptions)
    void run(const fovea_frame &frame, buffers outputs)
    {
        if (outputs.size() > MAX_OUTPUTS)
            throw std::length_error("fovea::plan::run");
        check(try_run(frame, outputs));
    }
    void run(const std::vector<fovea_frame> &frames, const std::vector<fovea_output> &outputs)
    {
        check(try_run(frames, outputs));
    }
    void run(const external_image &image, buffers outputs,
             const fovea_acquire_fence *acquire = nullptr)
    {
        if (outputs.size() > MAX_OUTPUTS)
            throw std::length_error("fovea::plan::run");
        check(try_run(image, outputs, acquire));
    }
#endif
    /* Submit a frame, or an external image. It is in flight until try_wait returns FOVEA_OK for the
     * ticket. */
    fovea_status try_submit(fovea_ticket &ticket, const fovea_frame &frame,
                            buffers outputs) noexcept
    {
        const given outs(outputs);
        return fovea_submit(*this, &frame, outs.out, outs.count, &ticket);
    }
    fovea_status try_submit(fovea_ticket &ticket, const external_image &image, buffers outputs,
                            const fovea_acquire_fence *acquire = nullptr) noexcept
    {
        const given outs(outputs);
        return fovea_submit_external_image(*this, image, acquire, outs.out, outs.count, &ticket);
    }
    fovea_status try_wait(fovea_ticket ticket, double timeout = -1) noexcept
    {
        return fovea_wait(*this, ticket, timeout);
    }
    /* Finds the boxes in the outputs of a frame that was run, in descending order of scores, at
     * most boxes.size(). `boxes` is resized to the number of boxes. */
    fovea_status try_detections(buffers outputs, std::vector<fovea_detection> &boxes) noexcept
    {
        return records(fovea_detections, outputs, boxes);
    }
    /* Finds masks in the same way; `map` has an element for every pixel of the frame, or is empty.
     */
    fovea_status try_masks(buffers outputs, const fovea_mask_options &options,
                           std::vector<fovea_mask> &masks, std::vector<std::uint16_t> &map) noexcept
    {
        const auto get = [&](fovea_plan *object, const fovea_output *out, std::size_t n,
                             fovea_mask *to, std::size_t capacity, std::size_t *found) {
            return fovea_masks(object, out, n, &options, to, capacity, found,
                               map.empty() ? nullptr : map.data(), map.size());
        };
        return records(get, outputs, masks);
    }
    /* Computes the mask of one query; `inside` has an element for every pixel of the frame. */
    fovea_status try_mask_pixels(buffers outputs, std::uint32_t query,
                                 std::vector<std::uint8_t> &inside) noexcept
    {
        const given outs(outputs);
        return fovea_mask_pixels(*this, outs.out, outs.count, query, inside.data(), inside.size());
    }
    /* Finds key points in the same way; `points` has an element for each key point. */
    fovea_status try_keypoints(buffers outputs, std::vector<fovea_keypoint> &points) noexcept
    {
        return records(fovea_keypoints, outputs, points);
    }
    /* Finds the key points of the person in a box, in a frame that fovea_box_crop has cut out. */
    fovea_status try_keypoints(buffers outputs, const fovea_box &box,
                               std::vector<fovea_keypoint> &points) noexcept
    {
        const auto get = [&](fovea_plan *object, const fovea_output *out, std::size_t n,
                             fovea_keypoint *to, std::size_t capacity, std::size_t *found) {
            return fovea_box_keypoints(object, out, n, &box, to, capacity, found);
        };
        return records(get, outputs, points);
    }
    /* Compute maps of an extent; `depth` and `classes` have an element for each pixel of the
     * extent. */
    fovea_status try_depth_map(buffers outputs, fovea_extent extent,
                               std::vector<float> &depth) noexcept
    {
        const given outs(outputs);
        return fovea_depth_map(*this, outs.out, outs.count, extent, depth.data(), depth.size());
    }
    fovea_status try_depth_map(buffers outputs, fovea_extent extent, double unit,
                               std::vector<std::uint16_t> &depth) noexcept
    {
        const given outs(outputs);
        return fovea_depth_map_u16(*this, outs.out, outs.count, extent, unit, depth.data(),
                                   depth.size());
    }
    fovea_status try_class_map(buffers outputs, fovea_extent extent,
                               std::vector<std::uint16_t> &classes) noexcept
    {
        const given outs(outputs);
        return fovea_class_map(*this, outs.out, outs.count, extent, classes.data(), classes.size());
    }

  private:
    static constexpr std::size_t MAX_OUTPUTS = 64;
    /* The outputs in the type that the C functions accept. */
    struct given {
        fovea_output out[MAX_OUTPUTS];
        std::size_t count = 0;
        explicit given(buffers outputs) noexcept
        {
            for (std::vector<float> &one : outputs)
                if (count < MAX_OUTPUTS)
                    out[count++] = {one.data(), one.size() * sizeof(float)};
        }
    };
    /* Makes records of outputs, at most out.size(), and resizes `out` to the number of records.
     * Calls get(plan, outputs, number of outputs, records, capacity, &found). */
    template <typename Get, typename Record>
    fovea_status records(Get get, buffers outputs, std::vector<Record> &out) noexcept
    {
        const given outs(outputs);
        std::size_t found = 0;
        const fovea_status status =
            get(*this, outs.out, outs.count, out.data(), out.size(), &found);
        out.resize(status == FOVEA_OK ? found : 0);
        return status;
    }
    friend result<plan>;
    explicit plan(owner object) noexcept : handle(object)
    {
    }
};

/* fovea_mailbox for pointers to Frames that stay the caller's. `options.drop` returns frames that
 * are not taken. */
template <typename Frame> class borrowing_mailbox : public handle<fovea_mailbox, fovea_mailbox_free>
{
  public:
    using owned = handle<fovea_mailbox, fovea_mailbox_free>;
    using typename owned::owner;
    static result<borrowing_mailbox> create(const fovea_mailbox_options *options = nullptr) noexcept
    {
        return result<borrowing_mailbox>(fovea_mailbox_create, options);
    }
#if defined(__cpp_exceptions)
    explicit borrowing_mailbox(const fovea_mailbox_options *options = nullptr)
        : borrowing_mailbox(create(options).take())
    {
    }
#endif
    fovea_status try_put(Frame &frame, double deadline = 0) noexcept
    {
        return fovea_mailbox_put(*this, &frame, deadline);
    }
    void end() noexcept
    {
        fovea_mailbox_end(*this);
    }
    /* `frame` is null when no more frames will be put. */
    fovea_status try_take(Frame *&frame, double timeout = -1) noexcept
    {
        void *taken = nullptr;
        const fovea_status status = fovea_mailbox_take(*this, timeout, &taken);
        frame = static_cast<Frame *>(taken);
        return status;
    }
    fovea_status try_wait(plan &plan, fovea_ticket ticket) noexcept
    {
        return fovea_mailbox_wait(*this, plan, ticket);
    }
    fovea_mailbox_info info() const
    {
        fovea_mailbox_info out = FOVEA_MAILBOX_INFO_INIT;
        fovea_mailbox_query(*this, &out);
        return out;
    }

  private:
    friend result<borrowing_mailbox>;
    explicit borrowing_mailbox(owner object) noexcept : owned(object)
    {
    }
};

namespace detail
{
/* The frames in a mailbox: one that is being put, one that waits, and one that is being taken. */
template <typename Frame> struct mailbox_frames {
    struct slot {
        std::optional<Frame> frame;
        std::atomic<bool> used{false};
        void clear() noexcept
        {
            frame.reset();
            used.store(false, std::memory_order_release);
        }
    };
    slot slots[3];
    fovea_mailbox *box = nullptr;

    static fovea_status create(mailbox_frames **out) noexcept
    {
        std::unique_ptr<mailbox_frames> made(new (std::nothrow) mailbox_frames);
        fovea_mailbox_options options = FOVEA_MAILBOX_OPTIONS_INIT;
        options.drop = [](void *, void *dropped) { static_cast<slot *>(dropped)->clear(); };
        const fovea_status status =
            made ? fovea_mailbox_create(&made->box, &options) : FOVEA_ENOMEM;
        if (status == FOVEA_OK)
            *out = made.release();
        return status;
    }
    static void destroy(mailbox_frames *frames) noexcept
    {
        delete frames;
    }
    ~mailbox_frames()
    {
        fovea_mailbox_free(box);
    }
    /* Called only by the thread that puts frames, which is the only one that makes a slot used. */
    slot &unused() noexcept
    {
        slot *one = slots;
        while (one->used.load(std::memory_order_acquire))
            one++;
        one->used.store(true, std::memory_order_relaxed);
        return *one;
    }
};
} // namespace detail

/* fovea_mailbox that owns its Frames. The thread that puts frames copies or moves them in, and the
 * thread that takes frames moves them out. A frame that is not taken is destroyed at once. Putting
 * and taking use no lock, and allocate only memory that copying and moving a Frame need. Moving a
 * Frame must not throw. */
template <typename Frame>
class mailbox : handle<detail::mailbox_frames<Frame>, detail::mailbox_frames<Frame>::destroy>
{
    using frames = detail::mailbox_frames<Frame>;
    using owned = handle<frames, frames::destroy>;
    using typename owned::owner;
    static_assert(std::is_nothrow_move_constructible_v<Frame> &&
                      std::is_nothrow_move_assignable_v<Frame>,
                  "a frame moves between threads, which must not throw");

  public:
    static result<mailbox> create() noexcept
    {
        return result<mailbox>(frames::create);
    }
    operator fovea_mailbox *() const noexcept
    {
        return inside()->box;
    }
    /* Moves from `frame`, unless this fails. */
    fovea_status try_put(Frame &&frame, double deadline = 0) noexcept
    {
        typename frames::slot &slot = inside()->unused();
        slot.frame.emplace(std::move(frame));
        const fovea_status status = fovea_mailbox_put(*this, &slot, deadline);
        if (status != FOVEA_OK) {
            frame = std::move(*slot.frame);
            slot.clear();
        }
        return status;
    }
    fovea_status try_put(const Frame &frame, double deadline = 0)
    {
        return try_put(Frame(frame), deadline);
    }
    void end() noexcept
    {
        fovea_mailbox_end(*this);
    }
    /* `frame` is empty when no more frames will be put, and after a failure. */
    fovea_status try_take(std::optional<Frame> &frame, double timeout = -1) noexcept
    {
        void *taken = nullptr;
        frame.reset();
        const fovea_status status = fovea_mailbox_take(*this, timeout, &taken);
        if (taken) {
            auto *slot = static_cast<typename frames::slot *>(taken);
            frame.emplace(std::move(*slot->frame));
            slot->clear();
        }
        return status;
    }
    fovea_status try_wait(plan &plan, fovea_ticket ticket) noexcept
    {
        return fovea_mailbox_wait(*this, plan, ticket);
    }
    fovea_mailbox_info info() const
    {
        fovea_mailbox_info out = FOVEA_MAILBOX_INFO_INIT;
        fovea_mailbox_query(*this, &out);
        return out;
    }
#if defined(__cpp_exceptions)
    mailbox() : mailbox(create().take())
    {
    }
    void put(Frame frame, double deadline = 0)
    {
        check(try_put(std::move(frame), deadline));
    }
    /* Returns an empty value when no more frames will be put. */
    std::optional<Frame> take(double timeout = -1)
    {
        std::optional<Frame> frame;
        check(try_take(frame, timeout));
        return frame;
    }
#endif

  private:
    frames *inside() const noexcept
    {
        return static_cast<const owned &>(*this);
    }
    friend result<mailbox>;
    explicit mailbox(owner object) noexcept : owned(object)
    {
    }
};

/* A single operation: an attention or a matrix product. */
class operation : public handle<fovea_plan, fovea_plan_free>
{
  public:
    using matrices = std::initializer_list<fovea_matrix>;
    static result<operation> create(device &device, const fovea_attention_options &options) noexcept
    {
        return result<operation>(fovea_attention_plan_create, static_cast<fovea_device *>(device),
                                 &options);
    }
    static result<operation> create(device &device, const fovea_gemm_options &options) noexcept
    {
        return result<operation>(fovea_gemm_plan_create, static_cast<fovea_device *>(device),
                                 &options);
    }
    fovea_status try_run(matrices inputs, fovea_matrix output) noexcept
    {
        return fovea_op_run(*this, inputs.begin(), inputs.size(), output);
    }
#if defined(__cpp_exceptions)
    operation(device &device, const fovea_attention_options &options)
        : operation(create(device, options).take())
    {
    }
    operation(device &device, const fovea_gemm_options &options)
        : operation(create(device, options).take())
    {
    }
    void run(matrices inputs, fovea_matrix output)
    {
        check(try_run(inputs, output));
    }
#endif

  private:
    friend result<operation>;
    explicit operation(owner object) noexcept : handle(object)
    {
    }
};

/* A causal attention and its state. */
class state : public handle<fovea_state, fovea_state_free>
{
  public:
    using matrices = std::initializer_list<fovea_matrix>;
    static result<state> create(device &device, const fovea_attention_options &options) noexcept
    {
        return result<state>(fovea_state_create, static_cast<fovea_device *>(device), &options);
    }
    fovea_status try_step(matrices inputs, fovea_matrix output) noexcept
    {
        return fovea_state_step(*this, inputs.begin(), inputs.size(), output);
    }
    fovea_status try_feed(std::uint32_t rows, matrices inputs, fovea_matrix output) noexcept
    {
        return fovea_state_feed(*this, rows, inputs.begin(), inputs.size(), output);
    }
    fovea_status try_reset() noexcept
    {
        return fovea_state_reset(*this);
    }
#if defined(__cpp_exceptions)
    state(device &device, const fovea_attention_options &options)
        : state(create(device, options).take())
    {
    }
    void step(matrices inputs, fovea_matrix output)
    {
        check(try_step(inputs, output));
    }
    void feed(std::uint32_t rows, matrices inputs, fovea_matrix output)
    {
        check(try_feed(rows, inputs, output));
    }
    void reset()
    {
        check(try_reset());
    }
    std::vector<float> save() const
    {
        std::vector<float> out(fovea_state_size(*this));
        check(fovea_state_save(*this, out.data(), out.size()));
        return out;
    }
    void restore(const std::vector<float> &values)
    {
        check(fovea_state_restore(*this, values.data(), values.size()));
    }
#endif

  private:
    friend result<state>;
    explicit state(owner object) noexcept : handle(object)
    {
    }
};

/* Makes masks of what points and boxes mark in the frames of a plan. */
class segmenter : public handle<fovea_segmenter, fovea_segmenter_free>
{
  public:
    using outputs = std::vector<fovea_output>;
    static result<segmenter> create(const plan &plan,
                                    const fovea_segmenter_options &options) noexcept
    {
        return result<segmenter>(fovea_segmenter_create, static_cast<const fovea_plan *>(plan),
                                 &options);
    }
    /* Returns the shape of an output: masks, scores. */
    fovea_output_info output(std::size_t index) const noexcept
    {
        fovea_output_info out = FOVEA_OUTPUT_INFO_INIT;
        (void)fovea_plan_output(fovea_segmenter_plan(*this), index, &out);
        return out;
    }
    fovea_status try_begin(const outputs &features) noexcept
    {
        return fovea_segmenter_begin(*this, features.data(), features.size());
    }
    fovea_status try_run(const fovea_prompt &prompt, const outputs &outs) noexcept
    {
        return fovea_segmenter_run(*this, &prompt, outs.data(), outs.size());
    }
    fovea_status try_choose(const outputs &outs, bool alternatives,
                            std::uint32_t &index) const noexcept
    {
        return fovea_segmenter_choose(*this, outs.data(), outs.size(), alternatives, &index);
    }
    /* `inside` has an element for every pixel of the frame, or is empty. */
    fovea_status try_mask(const outputs &outs, std::uint32_t index, fovea_mask &mask,
                          std::vector<std::uint8_t> &inside) noexcept
    {
        return fovea_segmenter_mask(*this, outs.data(), outs.size(), index, &mask,
                                    inside.empty() ? nullptr : inside.data(), inside.size());
    }
#if defined(__cpp_exceptions)
    explicit segmenter(const plan &plan,
                       const fovea_segmenter_options &options = FOVEA_SEGMENTER_OPTIONS_INIT)
        : segmenter(create(plan, options).take())
    {
    }
    void begin(const outputs &features)
    {
        check(try_begin(features));
    }
    void run(const fovea_prompt &prompt, const outputs &outs)
    {
        check(try_run(prompt, outs));
    }
    std::uint32_t choose(const outputs &outs, bool alternatives) const
    {
        std::uint32_t index;
        check(try_choose(outs, alternatives, index));
        return index;
    }
    fovea_mask mask(const outputs &outs, std::uint32_t index, std::vector<std::uint8_t> &inside)
    {
        fovea_mask out;
        check(try_mask(outs, index, out, inside));
        return out;
    }
#endif

  private:
    friend result<segmenter>;
    explicit segmenter(owner object) noexcept : handle(object)
    {
    }
};

/* A language model, which reads ids, or a token mixer, which reads rows. */
class sequence : public handle<fovea_sequence, fovea_sequence_free>
{
  public:
    using ids = std::initializer_list<std::uint32_t>;
    static result<sequence> create(const model &model, device &device,
                                   const fovea_sequence_options &options) noexcept
    {
        return result<sequence>(fovea_sequence_create, static_cast<const fovea_model *>(model),
                                static_cast<fovea_device *>(device), &options);
    }
    /* `floats` is the size of `logits`; see fovea_sequence_feed. */
    fovea_status try_feed(const std::uint32_t *first, std::size_t n, float *logits,
                          std::size_t floats) noexcept
    {
        return fovea_sequence_feed(*this, first, n, logits, floats);
    }
    fovea_status try_forward(fovea_matrix x, std::size_t n, fovea_matrix output) noexcept
    {
        return fovea_sequence_forward(*this, x, n, output);
    }
    fovea_status try_seek(std::uint64_t tokens) noexcept
    {
        return fovea_sequence_seek(*this, tokens);
    }
    fovea_status try_reset() noexcept
    {
        return fovea_sequence_reset(*this);
    }
    result<sequence> try_fork() const noexcept
    {
        return result<sequence>(fovea_sequence_fork, static_cast<const fovea_sequence *>(*this));
    }
    fovea_sequence_info info() const noexcept
    {
        fovea_sequence_info out = FOVEA_SEQUENCE_INFO_INIT;
        (void)fovea_sequence_query(*this, &out);
        return out;
    }
#if defined(__cpp_exceptions)
    sequence(const model &model, device &device, const fovea_sequence_options &options)
        : sequence(create(model, device, options).take())
    {
    }
    void feed(ids tokens, std::vector<float> &logits)
    {
        check(try_feed(tokens.begin(), tokens.size(), logits.data(), logits.size()));
    }
    void feed(const std::vector<std::uint32_t> &tokens, std::vector<float> &logits)
    {
        check(try_feed(tokens.data(), tokens.size(), logits.data(), logits.size()));
    }
    void forward(fovea_matrix x, std::size_t n, fovea_matrix output)
    {
        check(try_forward(x, n, output));
    }
    void seek(std::uint64_t tokens)
    {
        check(try_seek(tokens));
    }
    void reset()
    {
        check(try_reset());
    }
    std::vector<std::uint8_t> save() const
    {
        std::vector<std::uint8_t> out(fovea_sequence_size(*this));
        check(fovea_sequence_save(*this, out.data(), out.size()));
        return out;
    }
    void restore(const std::vector<std::uint8_t> &saved)
    {
        check(fovea_sequence_restore(*this, saved.data(), saved.size()));
    }
    sequence fork() const
    {
        return try_fork().take();
    }
#endif

  private:
    friend result<sequence>;
    explicit sequence(owner object) noexcept : handle(object)
    {
    }
};

} // namespace fovea

#endif
