#include "diagnostics.hpp"

#include <utility>

namespace fovea_ros
{

using diagnostic_msgs::msg::DiagnosticArray;
using diagnostic_msgs::msg::DiagnosticStatus;

Diagnostics::Diagnostics(rclcpp::Node &node, const std::string &hardware)
    : node_(node), publisher_(node.create_publisher<DiagnosticArray>("/diagnostics", 10)),
      hardware_(hardware)
{
}

void Diagnostics::done(double seconds, double latency)
{
    frames_++;
    seconds_ = seconds;
    latency_ = latency;
}

void Diagnostics::failed(const std::string &why)
{
    failures_++;
    failure_ = why;
}

void Diagnostics::tell(std::uint64_t dropped)
{
    const auto now = std::chrono::steady_clock::now();
    if (now < next_)
        return;
    next_ = now + std::chrono::seconds(1);
    DiagnosticStatus status;
    status.level = failure_.empty() ? DiagnosticStatus::OK : DiagnosticStatus::ERROR;
    status.name = std::string(node_.get_fully_qualified_name()) + ": frames";
    status.message = failure_.empty() ? "frames are run" : failure_;
    status.hardware_id = hardware_;
    const std::pair<const char *, std::string> values[] = {
        {"frames", std::to_string(frames_)},
        {"failed", std::to_string(failures_)},
        {"dropped for newer ones", std::to_string(dropped)},
        {"milliseconds of the device", std::to_string(seconds_ * 1000)},
        {"milliseconds since the stamp", std::to_string(latency_ * 1000)},
    };
    for (const auto &[key, value] : values) {
        status.values.emplace_back();
        status.values.back().key = key;
        status.values.back().value = value;
    }
    auto message = std::make_unique<DiagnosticArray>();
    message->header.stamp = node_.now();
    message->status.push_back(std::move(status));
    publisher_->publish(std::move(message));
    failure_.clear();
}

} // namespace fovea_ros
