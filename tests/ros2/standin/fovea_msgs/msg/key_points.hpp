#pragma once
#include <vector>

#include <fovea_msgs/msg/key_point.hpp>
#include <std_msgs/msg/header.hpp>
namespace fovea_msgs::msg
{
struct KeyPoints {
    std_msgs::msg::Header header;
    std::vector<fovea_msgs::msg::KeyPoint> points;
};
} // namespace fovea_msgs::msg
