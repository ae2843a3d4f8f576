/* settings.hpp: the node's parameters. */
#ifndef FOVEA_ROS_SETTINGS_HPP
#define FOVEA_ROS_SETTINGS_HPP

#include <cstdint>
#include <string>
#include <vector>

#include <fovea/fovea.hpp>
#include <rclcpp/rclcpp.hpp>

namespace fovea_ros
{

/* Parameters that a plan is made with; they cannot be changed while the node exists. */
struct Settings {
    std::string model, device, attention, transport, labels;
    /* for `~/features`; none: the main output, if it is features */
    std::vector<std::string> outputs;
    bool resize = true; /* false: frames as they come */
    /* size that the model sees; 0: as the model's preprocessing says */
    std::uint32_t width = 0, height = 0;
    fovea_compute compute = FOVEA_COMPUTE_AUTO;
    int yuv = -1;       /* a fovea_yuv_matrix; -1: what fovea_yuv_matrix_choose says of a camera */
    int mask_rule = -1; /* a fovea_mask_rule; -1: instance for a detector, else panoptic */
    std::uint32_t threads = 0;
};

/* Parameters that may be changed at any time. */
struct Limits {
    std::size_t top_k;
    double score, mask_score;
};

/* Declares all parameters. Throws rclcpp::exceptions::InvalidParameterValueException. */
Settings declare_settings(rclcpp::Node &node);
Limits limits_of(const rclcpp::Node &node);

} // namespace fovea_ros

#endif
