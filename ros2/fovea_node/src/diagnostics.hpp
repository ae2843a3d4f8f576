/* diagnostics.hpp: reports the node's state on /diagnostics, once a second while frames arrive. */
#ifndef FOVEA_ROS_DIAGNOSTICS_HPP
#define FOVEA_ROS_DIAGNOSTICS_HPP

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include <diagnostic_msgs/msg/diagnostic_array.hpp>
#include <rclcpp/rclcpp.hpp>

namespace fovea_ros
{

class Diagnostics
{
  public:
    Diagnostics(rclcpp::Node &node, const std::string &hardware);
    /* Counts a frame that was run: seconds that the device took, and seconds since its stamp. */
    void done(double seconds, double latency);
    /* Counts a frame that could not be run. */
    void failed(const std::string &why);
    /* Publishes the counts, if a second has passed since the last time. */
    void tell(std::uint64_t dropped);

  private:
    rclcpp::Node &node_;
    std::shared_ptr<rclcpp::Publisher<diagnostic_msgs::msg::DiagnosticArray>> publisher_;
    std::string hardware_, failure_; /* the last one since publishing */
    std::uint64_t frames_ = 0, failures_ = 0;
    double seconds_ = 0, latency_ = 0;           /* of the last frame */
    std::chrono::steady_clock::time_point next_; /* when to publish */
};

} // namespace fovea_ros

#endif
