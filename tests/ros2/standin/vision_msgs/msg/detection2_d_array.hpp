/* Without the pose of a hypothesis, which nobody sets. */
#pragma once
#include <string>
#include <vector>

#include <vision_msgs/msg/classification.hpp>
namespace vision_msgs::msg
{
struct Point2D {
    double x = 0, y = 0;
};
struct Pose2D {
    Point2D position;
    double theta = 0;
};
struct BoundingBox2D {
    Pose2D center;
    double size_x = 0, size_y = 0;
};
struct ObjectHypothesisWithPose {
    ObjectHypothesis hypothesis;
};
struct Detection2D {
    std_msgs::msg::Header header;
    std::vector<ObjectHypothesisWithPose> results;
    BoundingBox2D bbox;
    std::string id;
};
struct Detection2DArray {
    std_msgs::msg::Header header;
    std::vector<Detection2D> detections;
};
} // namespace vision_msgs::msg
