#pragma once
#include <rclcpp/rclcpp.hpp>
#include <sensor_msgs/msg/image.hpp>
namespace image_transport
{
using Callback = std::function<void(const sensor_msgs::msg::Image::ConstSharedPtr &)>;
inline Callback subscribed;
struct Subscriber {
    void shutdown()
    {
        subscribed = nullptr;
    }
};
inline Subscriber create_subscription(rclcpp::Node *, const std::string &, const Callback &callback,
                                      const std::string &, rmw_qos_profile_t)
{
    subscribed = callback;
    return {};
}
} // namespace image_transport
