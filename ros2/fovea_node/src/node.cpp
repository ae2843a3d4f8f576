#include "fovea_ros/node.hpp"

#include <rclcpp_components/register_node_macro.hpp>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace fovea_ros
{

namespace
{

constexpr int THROTTLE = 5000; /* milliseconds between two lines of a kind in the log */

fovea_format format_of(const std::string &encoding)
{
    if (encoding == "rgb8")
        return FOVEA_FORMAT_RGB8;
    if (encoding == "bgr8")
        return FOVEA_FORMAT_BGR8;
    if (encoding == "mono8")
        return FOVEA_FORMAT_GRAY8;
    throw std::invalid_argument("encoding \"" + encoding +
                                "\": wanted one of rgb8, bgr8, mono8; convert it before the node");
}

fovea_compute compute_of(const std::string &text)
{
    const char *const names[] = {"f32", "bf16", "int8", "auto"}; /* by fovea_compute */
    for (int i = 0; i < 4; i++)
        if (text == names[i])
            return static_cast<fovea_compute>(i);
    throw rclcpp::exceptions::InvalidParameterValueException(
        "compute \"" + text + "\": wanted one of f32, bf16, int8, auto");
}

} // namespace

Node::Node(const rclcpp::NodeOptions &options) : rclcpp::Node("fovea", options)
{
    const auto path = declare_parameter<std::string>("model", "");
    const auto id = declare_parameter<std::string>("device", "cpu");
    attention_ = declare_parameter<std::string>("attention", "");
    output_ = declare_parameter<std::string>("output", "");
    compute_ = declare_parameter<std::string>("compute", "f32");
    const auto threads = declare_parameter<std::int64_t>("threads", 0);
    compute_of(compute_);
    if (path.empty() || threads < 0 || threads > UINT16_MAX)
        throw rclcpp::exceptions::InvalidParameterValueException(
            path.empty() ? "no model: set the parameter `model` to a checkpoint or synthetic:NAME"
                         : "threads: wanted 0 for as many as there are cores, or up to 65535");
    fovea_device_options device = FOVEA_DEVICE_OPTIONS_INIT;
    device.threads = static_cast<std::uint32_t>(threads);
    try {
        device_ = std::make_unique<fovea::device>(id.c_str(), &device);
        model_ = std::make_unique<fovea::model>(path.c_str());
    } catch (const fovea::error &error) {
        throw rclcpp::exceptions::InvalidParameterValueException(error.what());
    }
    features_ = create_publisher<fovea_msgs::msg::Features>("~/features", rclcpp::SensorDataQoS());
    worker_ = std::thread(&Node::work, this);
    images_ = image_transport::create_subscription(
        this, "image", [this](const Image::ConstSharedPtr &image) { put(image); }, "raw",
        rclcpp::SensorDataQoS().get_rmw_qos_profile());
}

Node::~Node()
{
    images_.shutdown();
    {
        const std::lock_guard<std::mutex> hold(lock_);
        done_ = true;
    }
    came_.notify_one();
    worker_.join();
}

void Node::put(const Image::ConstSharedPtr &image)
{
    std::uint64_t dropped = 0;
    {
        const std::lock_guard<std::mutex> hold(lock_);
        if (next_)
            dropped = ++dropped_;
        next_ = image;
    }
    came_.notify_one();
    if (dropped)
        RCLCPP_WARN_THROTTLE(get_logger(), *get_clock(), THROTTLE, "%llu frames dropped so far",
                             static_cast<unsigned long long>(dropped));
}

void Node::work()
{
    for (;;) {
        Image::ConstSharedPtr image;
        {
            std::unique_lock<std::mutex> hold(lock_);
            came_.wait(hold, [this] { return done_ || next_; });
            if (done_)
                return;
            image = std::move(next_);
            next_ = nullptr;
        }
        try {
            run(*image);
        } catch (const std::exception &error) {
            RCLCPP_ERROR_THROTTLE(get_logger(), *get_clock(), THROTTLE, "%s", error.what());
        }
    }
}

void Node::make_plan(const Image &image, fovea_format format)
{
    if (plan_ && image.width == width_ && image.height == height_ && format == format_)
        return;
    plan_.reset();
    fovea_plan_options options = FOVEA_PLAN_OPTIONS_INIT;
    fovea_preprocess rule = FOVEA_PREPROCESS_INIT;
    fovea_model_preprocess(*model_, &rule);
    options.preprocess = &rule;
    options.frame.format = format;
    options.frame.width = image.width;
    options.frame.height = image.height;
    options.attention = attention_.empty() ? nullptr : attention_.c_str();
    options.compute = compute_of(compute_);
    std::vector<std::string> names;
    std::istringstream list(output_);
    for (std::string name; std::getline(list, name, ',');)
        names.push_back(name);
    std::vector<const char *> outputs;
    for (const std::string &name : names)
        outputs.push_back(name.c_str());
    options.outputs = outputs.empty() ? nullptr : outputs.data();
    options.n_outputs = outputs.size();
    plan_ = std::make_unique<fovea::plan>(*model_, *device_, options);
    width_ = image.width;
    height_ = image.height;
    format_ = format;
}

void Node::run(const Image &image)
{
    make_plan(image, format_of(image.encoding));
    if (image.step == 0 || image.data.size() / image.height < image.step)
        throw std::invalid_argument("image: no step, or fewer bytes than height * step");
    std::vector<std::unique_ptr<fovea_msgs::msg::Features>> messages;
    std::vector<fovea_output> outs;
    fovea_output_info info = FOVEA_OUTPUT_INFO_INIT;
    for (std::size_t i = 0; fovea_plan_output(*plan_, i, &info); i++) {
        auto message = std::make_unique<fovea_msgs::msg::Features>();
        message->header = image.header;
        message->name = info.name;
        message->rows = info.rows;
        message->columns = info.columns;
        message->prefix = info.prefix;
        message->grid_width = info.grid_width;
        message->grid_height = info.grid_height;
        message->stride = info.stride;
        message->data.resize(std::size_t{info.rows} * info.columns);
        outs.push_back({message->data.data(), message->data.size() * sizeof(float)});
        messages.push_back(std::move(message));
    }
    fovea_frame frame = {};
    frame.pixels[0] = image.data.data();
    frame.stride[0] = image.step;
    fovea::check(fovea_run(*plan_, &frame, outs.data(), outs.size()));
    for (auto &message : messages)
        features_->publish(std::move(message));
}

} // namespace fovea_ros

RCLCPP_COMPONENTS_REGISTER_NODE(fovea_ros::Node)
