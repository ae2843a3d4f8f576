#include "settings.hpp"

#include <cstdlib>
#include <initializer_list>
#include <sstream>

#include <rcl_interfaces/msg/parameter_descriptor.hpp>

namespace fovea_ros
{

namespace
{

using rcl_interfaces::msg::ParameterDescriptor;

[[noreturn]] void refuse(const std::string &text)
{
    throw rclcpp::exceptions::InvalidParameterValueException(text);
}

ParameterDescriptor about(const char *text, bool fixed)
{
    ParameterDescriptor out;
    out.description = text;
    out.read_only = fixed;
    return out;
}

std::string text(rclcpp::Node &node, const char *name, const char *standard, const char *what)
{
    return node.declare_parameter<std::string>(name, standard, about(what, true));
}

std::int64_t number(rclcpp::Node &node, const char *name, std::int64_t standard, std::int64_t most,
                    bool fixed, const char *what)
{
    ParameterDescriptor descriptor = about(what, fixed);
    descriptor.integer_range.resize(1);
    descriptor.integer_range[0].to_value = most;
    descriptor.integer_range[0].step = 1;
    return node.declare_parameter<std::int64_t>(name, standard, descriptor);
}

void share(rclcpp::Node &node, const char *name, double standard, const char *what)
{
    ParameterDescriptor descriptor = about(what, false);
    descriptor.floating_point_range.resize(1);
    descriptor.floating_point_range[0].to_value = 1;
    node.declare_parameter<double>(name, standard, descriptor);
}

/* The index of `word` in the list, which has the order of one of Fovea's enums. */
int choice(const char *name, const std::string &word, std::initializer_list<const char *> words)
{
    std::string known;
    int i = 0;
    for (const char *one : words) {
        if (word == one)
            return i;
        known += (i++ ? ", " : "") + std::string(one);
    }
    refuse(std::string(name) + " \"" + word + "\": it must be one of " + known);
}

/* "N" or "WxH". */
void read_size(Settings &to, const std::string &size)
{
    if (size.empty())
        return;
    to.resize = size != "frame";
    if (!to.resize)
        return;
    char *end;
    const unsigned long width = std::strtoul(size.c_str(), &end, 10);
    const unsigned long height = *end == 'x' ? std::strtoul(end + 1, &end, 10) : width;
    if (*end || width < 1 || height < 1 || width > UINT16_MAX || height > UINT16_MAX)
        refuse("size \"" + size +
               "\": it must be WxH, or N for NxN, with sides from 1 to 65535 pixels, or \"frame\"");
    to.width = static_cast<std::uint32_t>(width);
    to.height = static_cast<std::uint32_t>(height);
}

std::vector<std::string> split(const std::string &names)
{
    std::vector<std::string> out;
    std::istringstream list(names);
    for (std::string name; std::getline(list, name, ',');)
        out.push_back(name);
    return out;
}

} // namespace

Settings declare_settings(rclcpp::Node &node)
{
    Settings out;
    out.model = text(node, "model", "", "Checkpoint file, its folder, or synthetic:NAME");
    out.device = text(node, "device", "cpu", "Device as `fovea info` lists it: cpu, cl:0, cuda:0");
    out.attention = text(node, "attention", "",
                         "Attention that replaces the model's own: linear, softmax, ...");
    out.outputs = split(text(node, "output", "",
                             "Names of outputs for ~/features, separated by commas; if empty, the "
                             "main output if it is features"));
    read_size(out, text(node, "size", "",
                        "Input size of the model: WxH or N; frame: the frame's size; if empty, as "
                        "the model's own preprocessing says"));
    out.compute = static_cast<fovea_compute>(choice(
        "compute",
        text(node, "compute", "auto",
             "Type in which matrix products multiply: f32, bf16, int8; auto: the type that fovea "
             "tune has found, else bf16 if the device has instructions for it, else f32"),
        {"f32", "bf16", "int8", "auto"}));
    out.threads = static_cast<std::uint32_t>(
        number(node, "threads", 0, 1024, true,
               "Number of worker threads, including the node's own; 0: one per performance core"));
    out.yuv = choice("yuv",
                     text(node, "yuv", "auto",
                          "Colour rule for frames of Y, U, V: 601, 601-full, 709, 709-full, 2020, "
                          "2020-full; auto: 601, and 601-full for mono8"),
                     {"601", "601-full", "709", "709-full", "2020", "2020-full", "auto"});
    if (out.yuv > FOVEA_YUV_2020_FULL)
        out.yuv = -1;
    out.labels = text(node, "labels", "",
                      "File with one class name per line, which replaces the model's names");
    out.mask_rule =
        choice("mask_rule",
               text(node, "mask_rule", "auto",
                    "panoptic: every pixel is in at most one mask; instance: masks may overlap; "
                    "auto: instance for a detector, else panoptic"),
               {"panoptic", "instance", "auto"});
    if (out.mask_rule > FOVEA_MASKS_INSTANCE)
        out.mask_rule = -1;
    out.transport =
        text(node, "image_transport", "raw", "Transport of images: raw, compressed, ...");
    number(node, "top_k", 5, 100, false, "Number of best labels to report");
    share(node, "score", 0.3, "Minimum score of boxes");
    share(node, "mask_score", 0.0,
          "Minimum score of masks; 0: the model's usual one, 0.8 for EoMT and else 0.5");
    if (out.model.empty())
        refuse("no model is set: set the parameter `model` to a checkpoint or synthetic:NAME");
    return out;
}

Limits limits_of(const rclcpp::Node &node)
{
    return {static_cast<std::size_t>(node.get_parameter("top_k").as_int()),
            node.get_parameter("score").as_double(), node.get_parameter("mask_score").as_double()};
}

} // namespace fovea_ros
