/* fovea.hpp: fovea.h for C++17. Handles that free themselves and cannot be copied; what fails
 * throws fovea::error. Everything else is fovea.h's: its structs, its names, its rules.
 * Header-only.
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
 */
#ifndef FOVEA_FOVEA_HPP
#define FOVEA_FOVEA_HPP

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <vector>

#include <fovea/fovea.h>

namespace fovea
{

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

/* An object of the library, owned. It converts to the pointer that fovea.h's functions take. */
template <typename T, void (*Free)(T *)> class handle
{
  public:
    operator T *() const noexcept
    {
        return object_.get();
    }

  protected:
    /* Calls create(&object, arguments...). */
    template <typename Create, typename... Arguments>
    explicit handle(Create create, Arguments... arguments)
    {
        T *object = nullptr;
        check(create(&object, arguments...));
        object_.reset(object);
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

/* Must outlive its plans and states. */
class device : public handle<fovea_device, fovea_device_close>
{
  public:
    explicit device(const char *id = "auto", const fovea_device_options *options = nullptr)
        : handle(fovea_device_open, id, options)
    {
    }
    fovea_device_info info() const
    {
        fovea_device_info out;
        fovea_device_describe(*this, &out);
        return out;
    }
};

class model : public handle<fovea_model, fovea_model_free>
{
  public:
    explicit model(const char *path) : handle(fovea_model_load, path)
    {
    }
    fovea_model_info info() const
    {
        fovea_model_info out;
        fovea_model_describe(*this, &out);
        return out;
    }
    /* Names of what it can give, the main one first; they belong to the model. */
    std::vector<const char *> outputs() const
    {
        std::vector<const char *> names;
        while (const char *name = fovea_model_output(*this, names.size()))
            names.push_back(name);
        return names;
    }
};

/* Frames of one size through a model. */
class plan : public handle<fovea_plan, fovea_plan_free>
{
  public:
    plan(const model &model, device &device, const fovea_plan_options &options)
        : handle(fovea_plan_create, static_cast<const fovea_model *>(model),
                 static_cast<fovea_device *>(device), &options)
    {
    }
    fovea_plan_info info() const
    {
        fovea_plan_info out;
        fovea_plan_query(*this, &out);
        return out;
    }
    /* Throws std::out_of_range past the end. */
    fovea_output_info output(std::size_t index) const
    {
        fovea_output_info out;
        if (!fovea_plan_output(*this, index, &out))
            throw std::out_of_range("fovea::plan::output");
        return out;
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
    /* One buffer for each of the plan's outputs, in their order. */
    void run(const fovea_frame &frame,
             std::initializer_list<std::reference_wrapper<std::vector<float>>> outputs)
    {
        fovea_output outs[MAX_OUTPUTS];
        std::size_t count = 0;
        if (outputs.size() > MAX_OUTPUTS)
            throw std::length_error("fovea::plan::run");
        for (std::vector<float> &out : outputs)
            outs[count++] = {out.data(), out.size() * sizeof(float)};
        check(fovea_run(*this, &frame, outs, count));
    }

  private:
    static constexpr std::size_t MAX_OUTPUTS = 64;
};

/* One operation, such as an attention. */
class operation : public handle<fovea_plan, fovea_plan_free>
{
  public:
    operation(device &device, const fovea_op_options &options)
        : handle(fovea_op_plan_create, static_cast<fovea_device *>(device), &options)
    {
    }
    void run(std::initializer_list<fovea_matrix> inputs, fovea_matrix output)
    {
        check(fovea_op_run(*this, inputs.begin(), inputs.size(), output));
    }
};

/* A causal attention with memory. */
class state : public handle<fovea_state, fovea_state_free>
{
  public:
    state(device &device, const fovea_op_options &options)
        : handle(fovea_state_create, static_cast<fovea_device *>(device), &options)
    {
    }
    void step(std::initializer_list<fovea_matrix> inputs, fovea_matrix output)
    {
        check(fovea_state_step(*this, inputs.begin(), inputs.size(), output));
    }
    void feed(std::uint32_t rows, std::initializer_list<fovea_matrix> inputs, fovea_matrix output)
    {
        check(fovea_state_feed(*this, rows, inputs.begin(), inputs.size(), output));
    }
    void reset() noexcept
    {
        fovea_state_reset(*this);
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
};

} // namespace fovea

#endif
