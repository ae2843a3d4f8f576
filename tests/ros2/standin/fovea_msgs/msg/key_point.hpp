#pragma once
#include <string>
namespace fovea_msgs::msg
{
struct KeyPoint {
    std::string name;
    float x = 0;
    float y = 0;
    float score = 0;
};
} // namespace fovea_msgs::msg
