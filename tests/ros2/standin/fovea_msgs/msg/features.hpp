#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <std_msgs/msg/header.hpp>
namespace fovea_msgs::msg
{
struct Features {
    std_msgs::msg::Header header;
    std::string name;
    std::uint32_t rows = 0;
    std::uint32_t columns = 0;
    std::uint32_t prefix = 0;
    std::uint32_t grid_width = 0;
    std::uint32_t grid_height = 0;
    std::uint32_t stride = 0;
    std::vector<float> data;
};
} // namespace fovea_msgs::msg
