#pragma once
#include <string>
#include <vector>

#include <std_msgs/msg/header.hpp>
namespace diagnostic_msgs::msg
{
struct KeyValue {
    std::string key, value;
};
struct DiagnosticStatus {
    static constexpr unsigned char OK = 0, WARN = 1, ERROR = 2, STALE = 3;
    unsigned char level = 0;
    std::string name, message, hardware_id;
    std::vector<KeyValue> values;
};
struct DiagnosticArray {
    std_msgs::msg::Header header;
    std::vector<DiagnosticStatus> status;
};
} // namespace diagnostic_msgs::msg
