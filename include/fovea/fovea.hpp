/* fovea.hpp: fovea.h for C++17. Handles that free themselves and cannot be copied. Everything else
 * is fovea.h's: its structs, its names, its rules. Header-only.
 *
 * What fails throws fovea::error:
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
 * or, where a program does without exceptions (-fno-exceptions, -fno-rtti), says so:
 *
 *     auto device = fovea::device::open("cpu");
 *     auto model = fovea::model::load("dinov2-base");
 *     if (!device || !model)
 *         return fail(fovea_error());
 *     auto plan = fovea::plan::create(*model, *device, options);
 *     ...
 *         if (fovea_status status = plan->try_run({{camera.rgb}}, {features}))
 */
#ifndef FOVEA_FOVEA_HPP
#define FOVEA_FOVEA_HPP

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#if __has_include(<memory_resource>)
#include <memory_resource>
#endif
#include <stdexcept>
#include <utility>
#include <vector>

#include <fovea/fovea.h>

namespace fovea
{

#if defined(__cpp_exceptions)
/* what() is fovea_error(): the thing and the remedy. */
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
/* The library's memory comes from `resource`, by fovea_allocator_set, whose rules hold: any thread
 * asks it (synchronized_pool_resource, not the unsynchronized one), it lives until all of its
 * memory has come back, and it is set while no other call runs. nullptr: the C library's again.
 * What it throws is FOVEA_ENOMEM of the call that needed the memory; without exceptions it may give
 * nullptr. */
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

/* A T, or the status of why there is none; fovea_error() says more. */
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
    /* Only of a result that is true. */
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
    /* Of create(&object, arguments...). */
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

/* An object of the library, owned. It converts to the pointer that fovea.h's functions take; after
 * a move that is NULL, and there is nothing to call: assign to it, or let it go. */
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

/* May go before its plans and states, which keep what they need. */
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
    /* From memory, descriptors or callbacks. */
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
    /* What its image processor does with a picture: to be changed, and given to plans. */
    fovea_preprocess preprocess() const
    {
        fovea_preprocess out = FOVEA_PREPROCESS_INIT;
        fovea_model_preprocess(*this, &out);
        return out;
    }
    /* Finds what FOVEA_COMPUTE_AUTO is for this model: the fastest types of products with which
     * outputs on these frames keep a cosine of `bound` with float32. */
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
    /* Names of what it can give, the main one first; they belong to the model. */
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

/* Frames of one size in a layout that plans do not read, as they take them: the planes that have to
 * be made have room here. */
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
    /* The format for the plan, and the planes of frames as they come. */
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
    /* Good until the next call, as long as `in` is. */
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

/* Frames of one size through a model. */
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
    /* Output `index` of those that the options named, which it must be one of. */
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
    /* The attention behind output `index`, which has the queries of a block. */
    fovea_status attention(std::size_t index, fovea_attention_options &out) const
    {
        return fovea_plan_attention(*this, index, &out);
    }
    /* Where the channels of patch (x, y) begin in the buffer of output `index`. */
    std::size_t offset(std::size_t index, std::uint32_t x, std::uint32_t y) const
    {
        const fovea_output_info info = output(index);
        const std::size_t row = info.prefix + std::size_t{y} * info.grid_width + x;
        return row * info.columns;
    }
    /* Room for output `index`: rows * columns. */
    std::vector<float> buffer(std::size_t index) const
    {
        const fovea_output_info info = output(index);
        return std::vector<float>(std::size_t{info.rows} * info.columns);
    }
    using buffers = std::initializer_list<std::reference_wrapper<std::vector<float>>>;
    /* One buffer for each of the plan's outputs, in their order; at most 64. */
    fovea_status try_run(const fovea_frame &frame, buffers outputs) noexcept
    {
        const given outs(outputs);
        return fovea_run(*this, &frame, outs.out, outs.count);
    }
    /* Several frames of a plan with frame.count, one after the other, as fovea_run has them:
     * outputs of the first, then of the second, .. EINVAL: not as many as the frames have. */
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
    /* A frame, or an external image, that is in flight until try_wait is OK for its ticket. */
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
    /* Boxes in the outputs of a frame that was run, best first: at most as many as `boxes` has room
     * for, which becomes as long as there are. */
    fovea_status try_detections(buffers outputs, std::vector<fovea_detection> &boxes) noexcept
    {
        return records(fovea_detections, outputs, boxes);
    }
    /* Masks likewise; `map` has room for every pixel of the frame, or is empty. */
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
    /* Key points likewise: `points` has room for all. */
    fovea_status try_keypoints(buffers outputs, std::vector<fovea_keypoint> &points) noexcept
    {
        return records(fovea_keypoints, outputs, points);
    }
    /* Those of the person in a box, of a frame that try_crop has cut out. */
    fovea_status try_keypoints(buffers outputs, const fovea_box &box,
                               std::vector<fovea_keypoint> &points) noexcept
    {
        const auto get = [&](fovea_plan *object, const fovea_output *out, std::size_t n,
                             fovea_keypoint *to, std::size_t capacity, std::size_t *found) {
            return fovea_box_keypoints(object, out, n, &box, to, capacity, found);
        };
        return records(get, outputs, points);
    }
    /* Maps of the extent; `depth` and `classes` have room for all its pixels. */
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
    /* The outputs as the C functions take them. */
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
    /* Records that are found in outputs, as many as `out` has room for, which becomes as long as
     * there are; get(plan, outputs, their number, records, room, &found). */
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

/* The newest of a camera's frames: of Frames that are the caller's, one of which at most waits. */
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
    /* `frame` is null when none will come. */
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

  protected:
    friend result<borrowing_mailbox>;
    explicit borrowing_mailbox(owner object) noexcept : owned(object)
    {
    }
};

/* The same of Frames that are owned: by who puts one, by the mailbox, by who takes it. One that
 * nobody will take is deleted. */
template <typename Frame> class mailbox : public borrowing_mailbox<Frame>
{
  public:
    using typename borrowing_mailbox<Frame>::owner;
    using pointer = std::unique_ptr<Frame>;
    static result<mailbox> create() noexcept
    {
        fovea_mailbox_options options = FOVEA_MAILBOX_OPTIONS_INIT;
        options.drop = [](void *, void *frame) { pointer(static_cast<Frame *>(frame)); };
        const fovea_mailbox_options *given = &options;
        return result<mailbox>(fovea_mailbox_create, given);
    }
    /* `frame` is empty afterwards, unless it fails. */
    fovea_status try_put(pointer &frame, double deadline = 0) noexcept
    {
        const fovea_status status = fovea_mailbox_put(*this, frame.get(), deadline);
        if (status == FOVEA_OK)
            frame.release();
        return status;
    }
    /* `frame` is empty when none will come. */
    fovea_status try_take(pointer &frame, double timeout = -1) noexcept
    {
        Frame *taken = nullptr;
        const fovea_status status = borrowing_mailbox<Frame>::try_take(taken, timeout);
        frame.reset(taken);
        return status;
    }
#if defined(__cpp_exceptions)
    mailbox() : mailbox(create().take())
    {
    }
    void put(pointer frame, double deadline = 0)
    {
        check(try_put(frame, deadline));
    }
    pointer take(double timeout = -1)
    {
        pointer frame;
        check(try_take(frame, timeout));
        return frame;
    }
#endif

  private:
    friend result<mailbox>;
    explicit mailbox(owner object) noexcept : borrowing_mailbox<Frame>(object)
    {
    }
};

/* One operation: an attention or a matrix product. */
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

/* A causal attention with memory. */
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

/* A language model fed by ids, or a token mixer fed by rows. */
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
    /* `logits` must have room for them; see fovea_sequence_feed. */
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
