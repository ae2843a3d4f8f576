/* results.hpp: the topics for a model's results, and the messages for a frame. */
#ifndef FOVEA_ROS_RESULTS_HPP
#define FOVEA_ROS_RESULTS_HPP

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <fovea/fovea.hpp>
#include <fovea_msgs/msg/features.hpp>
#include <fovea_msgs/msg/key_points.hpp>
#include <rclcpp/rclcpp.hpp>
#include <sensor_msgs/msg/image.hpp>
#include <std_msgs/msg/header.hpp>
#include <vision_msgs/msg/classification.hpp>
#include <vision_msgs/msg/detection2_d_array.hpp>

#include "settings.hpp"

namespace fovea_ros
{

/* An output that the model can give. */
struct Output {
    std::string name;
    fovea_output_kind kind;
};

/* Publishes results. Messages are made only for topics with subscribers. Not thread-safe. */
class Results
{
  public:
    using Header = std_msgs::msg::Header;
    /* Advertises a topic for each result of the model. `outputs`: all outputs of the model, the
     * main one first. Throws std::exception if the names of classes cannot be read. */
    Results(rclcpp::Node &node, const Settings &settings, const fovea::model &model,
            const std::vector<Output> &outputs);
    /* Names of the outputs that a plan must have, in this order. */
    const std::vector<std::string> &names() const
    {
        return names_;
    }
    /* Whether there is any subscription. */
    bool wanted() const;
    /* Allocates the outputs of a new plan, which is for frames of width x height. */
    void open(const fovea::plan &plan, std::uint32_t width, std::uint32_t height);
    /* Runs a frame and publishes the results with the frame's header. Throws fovea::error. */
    void run(fovea::plan &plan, const fovea_frame &frame, const Header &header,
             const Limits &limits);

  private:
    template <typename Message> using Topic = std::shared_ptr<rclcpp::Publisher<Message>>;
    using Image = sensor_msgs::msg::Image;
    using Detections = vision_msgs::msg::Detection2DArray;

    void choose(const Settings &settings, const std::vector<Output> &outputs);
    bool has(fovea_output_kind kind) const;
    std::string label(std::uint32_t number) const;
    std::unique_ptr<Image> image(const Header &header, const char *encoding,
                                 std::size_t bytes) const;
    std::unique_ptr<Image> narrow(const Header &header, std::uint32_t most) const;
    void tell_labels(const Header &header, const Limits &limits);
    void tell_boxes(const fovea::plan &plan, const Header &header, const Limits &limits);
    void tell_depth(const fovea::plan &plan, const Header &header);
    void tell_classes(const fovea::plan &plan, const Header &header);
    void tell_masks(const fovea::plan &plan, const Header &header, const Limits &limits);
    void tell_points(const fovea::plan &plan, const Header &header);

    const fovea::model &model_;
    fovea_model_info about_ = FOVEA_MODEL_INFO_INIT;
    fovea_mask_rule mask_rule_ = FOVEA_MASKS_PANOPTIC;
    std::vector<std::string> labels_; /* in place of the model's */
    std::vector<std::string> names_;
    std::vector<fovea_output_kind> kinds_;
    std::size_t features_count_ = 0; /* the first of names_ */

    Topic<fovea_msgs::msg::Features> features_;
    Topic<vision_msgs::msg::Classification> classification_;
    Topic<Detections> boxes_, instances_;
    Topic<Image> depth_, classes_, masks_;
    Topic<fovea_msgs::msg::KeyPoints> points_;

    /* of a plan */
    std::uint32_t width_ = 0, height_ = 0;
    std::vector<fovea_output_info> infos_;
    std::vector<std::vector<float>> rows_; /* of outputs that are not moved into messages */
    std::vector<fovea_output> outs_;
    std::vector<std::uint16_t> map_;
};

} // namespace fovea_ros

#endif
