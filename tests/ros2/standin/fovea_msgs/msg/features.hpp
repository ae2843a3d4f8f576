#pragma once
#include <sensor_msgs/msg/image.hpp>
namespace fovea_msgs::msg
{
struct Features {
    std_msgs::msg::Header header;
    std::string name;
    std::uint32_t rows = 0, columns = 0, prefix = 0, grid_width = 0, grid_height = 0, stride = 0;
    std::vector<float> data;
};
} // namespace fovea_msgs::msg
