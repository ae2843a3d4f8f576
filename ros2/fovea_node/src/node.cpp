#include "fovea_ros/node.hpp"

#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <image_transport/image_transport.hpp>
#include <rclcpp_components/register_node_macro.hpp>

#include "diagnostics.hpp"
#include "encodings.hpp"
#include "mailbox.hpp"
#include "results.hpp"
#include "settings.hpp"

namespace fovea_ros
{

namespace
{

using sensor_msgs::msg::Image;

constexpr int THROTTLE = 5000; /* least milliseconds between two log messages of the same kind */

fovea::device open_device(const Settings &settings)
{
    fovea_device_options options = FOVEA_DEVICE_OPTIONS_INIT;
    options.threads = settings.threads;
    return fovea::device(settings.device.c_str(), &options);
}

} // namespace

/* Everything that exists as long as the node. Its thread is started last and ends first. */
class Node::Worker
{
  public:
    explicit Worker(Node &node);
    ~Worker();

  private:
    void work();
    template <typename Do> void attempt(const Do &what);
    void run(const Image &image);
    void plan_for(const Image &image);
    fovea::plan make_plan(const std::vector<std::string> &names, fovea_pixel_format format,
                          fovea_yuv_matrix yuv, std::uint32_t width, std::uint32_t height,
                          bool dry);
    std::vector<Output> outputs();

    Node &node_;
    /* for throttling log messages, as the node's clock may stand still */
    rclcpp::Clock steady_{RCL_STEADY_TIME};
    Settings settings_;
    fovea::device device_;
    fovea::model model_;
    Results results_;
    Diagnostics diagnostics_;
    Pixels pixels_;

    std::unique_ptr<fovea::plan> plan_; /* for frames like this: */
    std::uint32_t width_ = 0, height_ = 0;
    fovea_pixel_format format_ = FOVEA_FORMAT_RGB8;
    fovea_yuv_matrix yuv_ = FOVEA_YUV_601;
    std::string refusal_; /* why there is none */

    std::shared_ptr<Mailbox> mailbox_ = std::make_shared<Mailbox>(); /* callbacks have it, too */
    image_transport::Subscriber images_;
    std::thread thread_;
};

/* ---- beginning and end ---- */

Node::Worker::Worker(Node &node)
    : node_(node), settings_(declare_settings(node)), device_(open_device(settings_)),
      model_(settings_.model.c_str()), results_(node, settings_, model_, outputs()),
      diagnostics_(node, settings_.device)
{
    /* The name is resolved here: transports append to it, and remapping would not match the longer
     * name. */
    const std::string topic = node.get_node_topics_interface()->resolve_topic_name("image");
    images_ = image_transport::create_subscription(
        &node, topic, [box = mailbox_](const Image::ConstSharedPtr &image) { box->put(image); },
        settings_.transport, rclcpp::SensorDataQoS().keep_last(1).get_rmw_qos_profile());
    thread_ = std::thread(&Worker::work, this);
}

Node::Worker::~Worker()
{
    images_.shutdown();
    mailbox_->close();
    if (thread_.joinable())
        thread_.join();
}

Node::Node(const rclcpp::NodeOptions &options) : rclcpp::Node("fovea", options)
{
    try {
        worker_ = std::make_unique<Worker>(*this);
    } catch (const fovea::error &error) {
        throw rclcpp::exceptions::InvalidParameterValueException(error.what());
    }
}

Node::~Node() = default;

/* ---- plans ---- */

fovea::plan Node::Worker::make_plan(const std::vector<std::string> &names,
                                    fovea_pixel_format format, fovea_yuv_matrix yuv,
                                    std::uint32_t width, std::uint32_t height, bool dry)
{
    fovea_plan_options options = FOVEA_PLAN_OPTIONS_INIT;
    fovea_preprocess rule = model_.preprocess();
    std::vector<const char *> outputs;
    for (const std::string &name : names)
        outputs.push_back(name.c_str());
    if (settings_.width)
        fovea::check(fovea_preprocess_resize(&rule, settings_.width, settings_.height));
    options.preprocess = settings_.resize ? &rule : nullptr;
    options.frame.format = format;
    options.frame.width = width;
    options.frame.height = height;
    options.yuv = yuv;
    options.attention = settings_.attention.empty() ? nullptr : settings_.attention.c_str();
    options.compute = settings_.compute;
    options.outputs = outputs.data();
    options.n_outputs = outputs.size();
    options.dry = dry;
    return fovea::plan(model_, device_, options);
}

/* The outputs of the model and their kinds, which only a plan knows. The size of its frames matters
 * only for models that use frames unchanged. */
std::vector<Output> Node::Worker::outputs()
{
    std::vector<Output> out;
    std::vector<std::string> names;
    for (const char *name : model_.outputs())
        names.emplace_back(name);
    const fovea::plan plan = make_plan(names, FOVEA_FORMAT_RGB8, FOVEA_YUV_601, 640, 480, true);
    for (std::size_t i = 0; i < names.size(); i++)
        out.push_back({names[i], plan.output(i).kind});
    return out;
}

/* A failure is remembered for frames of the same kind, because planning takes a while. */
void Node::Worker::plan_for(const Image &image)
{
    const bool same = image.width == width_ && image.height == height_ &&
                      pixels_.format() == format_ && pixels_.yuv() == yuv_;
    if (!same) {
        plan_.reset();
        refusal_.clear();
        width_ = image.width;
        height_ = image.height;
        format_ = pixels_.format();
        yuv_ = pixels_.yuv();
    }
    if (!plan_ && refusal_.empty()) {
        try {
            plan_ = std::make_unique<fovea::plan>(
                make_plan(results_.names(), format_, yuv_, width_, height_, false));
            if (const char *note = plan_->info().untrained)
                RCLCPP_WARN(node_.get_logger(), "%s", note);
            results_.open(*plan_, width_, height_);
        } catch (const std::exception &error) {
            plan_.reset();
            refusal_ = error.what();
        }
    }
    if (!plan_)
        throw std::runtime_error(refusal_);
}

/* ---- frames ---- */

void Node::Worker::run(const Image &image)
{
    const Encoding &encoding = encoding_of(image.encoding);
    const fovea_frame frame = pixels_.frame(image, encoding, settings_.yuv);
    plan_for(image);
    results_.run(*plan_, frame, image.header, limits_of(node_));
    diagnostics_.done(fovea_plan_seconds(*plan_),
                      (node_.now() - rclcpp::Time(image.header.stamp)).seconds());
}

/* An error in one frame must not end the thread. */
template <typename Do> void Node::Worker::attempt(const Do &what)
{
    try {
        what();
    } catch (const std::exception &error) {
        diagnostics_.failed(error.what());
        RCLCPP_ERROR_THROTTLE(node_.get_logger(), steady_, THROTTLE, "%s", error.what());
    }
}

void Node::Worker::work()
{
    while (const Mailbox::Image image = mailbox_->take()) {
        attempt([&] {
            if (results_.wanted())
                run(*image);
        });
        attempt([&] { diagnostics_.tell(mailbox_->dropped()); });
    }
}

} // namespace fovea_ros

RCLCPP_COMPONENTS_REGISTER_NODE(fovea_ros::Node)
