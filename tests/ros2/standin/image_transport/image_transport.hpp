#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <rclcpp/rclcpp.hpp>
#include <sensor_msgs/msg/image.hpp>
namespace image_transport
{
class Subscriber
{
  public:
    using Callback = std::function<void(const sensor_msgs::msg::Image::ConstSharedPtr &)>;
    Subscriber() = default;
    explicit Subscriber(std::shared_ptr<void> subscription) : subscription_(std::move(subscription))
    {
    }
    void shutdown()
    {
        subscription_.reset();
    }

  private:
    std::shared_ptr<void> subscription_;
};
/* Knows the transport "raw". */
inline Subscriber
create_subscription(rclcpp::Node *node, const std::string &base_topic,
                    const Subscriber::Callback &callback, const std::string &transport,
                    rmw_qos_profile_t custom_qos = rmw_qos_profile_default,
                    rclcpp::SubscriptionOptions options = rclcpp::SubscriptionOptions())
{
    if (transport != "raw")
        throw std::runtime_error("no transport " + transport);
    const auto qos = rclcpp::QoS(rclcpp::QoSInitialization::from_rmw(custom_qos), custom_qos);
    return Subscriber(
        node->create_subscription<sensor_msgs::msg::Image>(base_topic, qos, callback, options));
}
} // namespace image_transport
