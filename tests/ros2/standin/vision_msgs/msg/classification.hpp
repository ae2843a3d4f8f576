#pragma once
#include <string>
#include <vector>

#include <std_msgs/msg/header.hpp>
namespace vision_msgs::msg
{
struct ObjectHypothesis {
    std::string class_id;
    double score = 0;
};
struct Classification {
    std_msgs::msg::Header header;
    std::vector<ObjectHypothesis> results;
};
} // namespace vision_msgs::msg
