#include "results.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <numeric>
#include <stdexcept>
#include <utility>

#include <sensor_msgs/image_encodings.hpp>

namespace fovea_ros
{

namespace
{

namespace encodings = sensor_msgs::image_encodings;
using vision_msgs::msg::Detection2D;

std::vector<std::string> read_labels(const std::string &path)
{
    std::vector<std::string> out;
    if (path.empty())
        return out;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        if (!line.empty() && line.back() == '\r')
            line.pop_back();
        out.push_back(line);
    }
    if (out.empty())
        throw rclcpp::exceptions::InvalidParameterValueException(
            "labels \"" + path + "\": the file cannot be read or contains no name");
    return out;
}

bool is_big_endian()
{
    const std::uint16_t one = 1;
    std::uint8_t first;
    std::memcpy(&first, &one, 1);
    return first == 0;
}

/* Clips a coordinate to the frame. */
double within(float at, double side)
{
    return std::clamp(double{at}, 0.0, side);
}

Detection2D detection(const std_msgs::msg::Header &header, double x1, double y1, double x2,
                      double y2)
{
    Detection2D out;
    out.header = header;
    out.bbox.center.position.x = (x1 + x2) / 2;
    out.bbox.center.position.y = (y1 + y2) / 2;
    out.bbox.size_x = x2 - x1;
    out.bbox.size_y = y2 - y1;
    out.results.resize(1);
    return out;
}

} // namespace

/* ---- the choice of outputs and topics ---- */

Results::Results(rclcpp::Node &node, const Settings &settings, const fovea::model &model,
                 const std::vector<Output> &outputs)
    : model_(model), labels_(read_labels(settings.labels))
{
    const rclcpp::QoS qos(5);
    fovea::check(fovea_model_describe(model, &about_));
    choose(settings, outputs);
    if (settings.mask_rule >= 0)
        mask_rule_ = static_cast<fovea_mask_rule>(settings.mask_rule);
    else if (about_.boxes)
        mask_rule_ = FOVEA_MASKS_INSTANCE;
    if (features_count_)
        features_ = node.create_publisher<fovea_msgs::msg::Features>("~/features", qos);
    if (has(FOVEA_OUTPUT_LOGITS))
        classification_ = node.create_publisher<vision_msgs::msg::Classification>("~/labels", qos);
    if (has(FOVEA_OUTPUT_BOXES))
        boxes_ = node.create_publisher<Detections>("~/boxes", qos);
    if (has(FOVEA_OUTPUT_DEPTH))
        depth_ = node.create_publisher<Image>("~/depth", qos);
    if (has(FOVEA_OUTPUT_CLASS_MAP) || has(FOVEA_OUTPUT_MASK_CLASSES))
        classes_ = node.create_publisher<Image>("~/classes", qos);
    if (has(FOVEA_OUTPUT_MASKS)) {
        masks_ = node.create_publisher<Image>("~/masks", qos);
        instances_ = node.create_publisher<Detections>("~/instances", qos);
    }
    if (has(FOVEA_OUTPUT_KEYPOINTS))
        points_ = node.create_publisher<fovea_msgs::msg::KeyPoints>("~/key_points", qos);
}

void Results::choose(const Settings &settings, const std::vector<Output> &outputs)
{
    const auto add = [&](const Output &one) {
        if (std::find(names_.begin(), names_.end(), one.name) != names_.end())
            return;
        names_.push_back(one.name);
        kinds_.push_back(one.kind);
    };
    for (const std::string &name : settings.outputs) {
        const auto same = [&](const Output &one) { return one.name == name; };
        const auto at = std::find_if(outputs.begin(), outputs.end(), same);
        if (at == outputs.end())
            throw rclcpp::exceptions::InvalidParameterValueException(
                "output \"" + name +
                "\": the model has no output of that name; its main output is " +
                outputs.front().name);
        add(*at);
    }
    if (names_.empty() && outputs.front().kind == FOVEA_OUTPUT_FEATURES)
        add(outputs.front());
    features_count_ = names_.size();
    for (const Output &one : outputs)
        if (one.kind != FOVEA_OUTPUT_FEATURES)
            add(one);
}

bool Results::has(fovea_output_kind kind) const
{
    return std::find(kinds_.begin(), kinds_.end(), kind) != kinds_.end();
}

bool Results::wanted() const
{
    const auto any = [](const auto &...topic) {
        return ((topic && topic->get_subscription_count() > 0) || ...);
    };
    return any(features_, classification_, boxes_, instances_, depth_, classes_, masks_, points_);
}

/* ---- frames ---- */

void Results::open(const fovea::plan &plan, std::uint32_t width, std::uint32_t height)
{
    width_ = width;
    height_ = height;
    infos_.clear();
    rows_.assign(names_.size(), {});
    outs_.assign(names_.size(), {});
    for (std::size_t i = 0; i < names_.size(); i++) {
        infos_.push_back(plan.output(i));
        if (i < features_count_)
            continue;
        rows_[i] = plan.buffer(i);
        outs_[i] = {rows_[i].data(), rows_[i].size() * sizeof(float)};
    }
}

void Results::run(fovea::plan &plan, const fovea_frame &frame, const Header &header,
                  const Limits &limits)
{
    std::vector<std::unique_ptr<fovea_msgs::msg::Features>> features;
    for (std::size_t i = 0; i < features_count_; i++) {
        const fovea_output_info &info = infos_[i];
        auto message = std::make_unique<fovea_msgs::msg::Features>();
        message->header = header;
        message->name = info.name;
        message->rows = info.rows;
        message->columns = info.columns;
        message->prefix = info.prefix;
        message->grid_width = info.grid_width;
        message->grid_height = info.grid_height;
        message->stride = info.stride;
        message->data.resize(std::size_t{info.rows} * info.columns);
        outs_[i] = {message->data.data(), message->data.size() * sizeof(float)};
        features.push_back(std::move(message));
    }
    fovea::check(fovea_run(plan, &frame, outs_.data(), outs_.size()));
    tell_labels(header, limits);
    tell_boxes(plan, header, limits);
    tell_depth(plan, header);
    tell_classes(plan, header);
    tell_masks(plan, header, limits);
    tell_points(plan, header);
    for (auto &message : features)
        features_->publish(std::move(message));
}

/* ---- messages ---- */

std::string Results::label(std::uint32_t number) const
{
    if (number < labels_.size())
        return labels_[number];
    const char *name = labels_.empty() ? fovea_model_label(model_, number) : nullptr;
    return name ? name : std::to_string(number);
}

std::unique_ptr<Results::Image> Results::image(const Header &header, const char *encoding,
                                               std::size_t bytes) const
{
    auto out = std::make_unique<Image>();
    out->header = header;
    out->encoding = encoding;
    out->width = width_;
    out->height = height_;
    out->is_bigendian = is_big_endian();
    out->step = static_cast<std::uint32_t>(width_ * bytes);
    out->data.resize(std::size_t{height_} * out->step);
    return out;
}

/* map_ as an image. It has one byte per pixel if there are at most `most` numbers in addition to
 * the reserved one; the latter is 0, or 0xffff, which becomes 255. */
std::unique_ptr<Results::Image> Results::narrow(const Header &header, std::uint32_t most) const
{
    if (most > UINT8_MAX) {
        auto out = image(header, encodings::TYPE_16UC1, sizeof map_[0]);
        std::memcpy(out->data.data(), map_.data(), out->data.size());
        return out;
    }
    auto out = image(header, encodings::MONO8, 1);
    std::transform(map_.begin(), map_.end(), out->data.begin(),
                   [](std::uint16_t number) { return static_cast<std::uint8_t>(number); });
    return out;
}

void Results::tell_labels(const Header &header, const Limits &limits)
{
    if (!classification_ || !classification_->get_subscription_count())
        return;
    const auto at = std::find(kinds_.begin(), kinds_.end(), FOVEA_OUTPUT_LOGITS) - kinds_.begin();
    const fovea_output_info &info = infos_[static_cast<std::size_t>(at)];
    const auto *logit = static_cast<const float *>(outs_[static_cast<std::size_t>(at)].data);
    const std::size_t count = std::min<std::size_t>(limits.top_k, info.columns);
    std::vector<std::uint32_t> order(info.columns);
    std::iota(order.begin(), order.end(), 0u);
    const auto better = [&](std::uint32_t a,
                            std::uint32_t b) { /* of equals the first */
                                               const bool a_is_nan = std::isnan(logit[a]),
                                                          b_is_nan = std::isnan(logit[b]);
                                               if (a_is_nan || b_is_nan)
                                                   return a_is_nan == b_is_nan ? a < b : b_is_nan;
                                               return logit[a] > logit[b] ||
                                                      (logit[a] >= logit[b] && a < b);
    };
    const auto end = order.begin() + static_cast<std::ptrdiff_t>(std::max<std::size_t>(count, 1));
    std::partial_sort(order.begin(), end, order.end(), better);
    std::vector<float> scores(info.columns);
    fovea::check(fovea_class_scores(model_, logit, scores.size(), scores.data()));
    auto message = std::make_unique<vision_msgs::msg::Classification>();
    message->header = header;
    message->results.resize(count);
    for (std::size_t k = 0; k < count; k++) {
        message->results[k].class_id = label(order[k]);
        message->results[k].score = double{scores[order[k]]};
    }
    classification_->publish(std::move(message));
}

void Results::tell_boxes(const fovea::plan &plan, const Header &header, const Limits &limits)
{
    if (!boxes_ || !boxes_->get_subscription_count())
        return;
    std::vector<fovea_detection> found(about_.boxes);
    std::size_t count;
    fovea::check(
        fovea_detections(plan, outs_.data(), outs_.size(), found.data(), found.size(), &count));
    auto message = std::make_unique<Detections>();
    message->header = header;
    for (std::size_t i = 0; i < count && double{found[i].score} >= limits.score; i++) {
        const fovea_detection &d = found[i];
        message->detections.push_back(detection(header, within(d.x1, width_), within(d.y1, height_),
                                                within(d.x2, width_), within(d.y2, height_)));
        auto &hypothesis = message->detections.back().results[0].hypothesis;
        hypothesis.class_id = label(d.label);
        hypothesis.score = double{d.score};
    }
    boxes_->publish(std::move(message));
}

void Results::tell_depth(const fovea::plan &plan, const Header &header)
{
    if (!depth_ || !depth_->get_subscription_count())
        return;
    auto message = image(header, encodings::TYPE_32FC1, sizeof(float));
    /* the vector's memory comes from new, so it is aligned for floats */
    auto *depth = reinterpret_cast<float *>(message->data.data());
    fovea::check(fovea_depth_map(plan, outs_.data(), outs_.size(), FOVEA_EXTENT_FRAME, depth,
                                 message->data.size() / sizeof *depth));
    depth_->publish(std::move(message));
}

void Results::tell_classes(const fovea::plan &plan, const Header &header)
{
    if (!classes_ || !classes_->get_subscription_count())
        return;
    map_.resize(std::size_t{width_} * height_);
    fovea::check(fovea_class_map(plan, outs_.data(), outs_.size(), FOVEA_EXTENT_FRAME, map_.data(),
                                 map_.size()));
    classes_->publish(narrow(header, about_.segments));
}

void Results::tell_masks(const fovea::plan &plan, const Header &header, const Limits &limits)
{
    if (!masks_ || !(masks_->get_subscription_count() || instances_->get_subscription_count()))
        return;
    fovea_mask_options options = FOVEA_MASK_OPTIONS_INIT;
    options.rule = mask_rule_;
    options.threshold = static_cast<float>(limits.mask_score);
    std::vector<fovea_mask> found(about_.boxes ? about_.boxes : about_.masks);
    std::size_t count;
    map_.resize(std::size_t{width_} * height_);
    fovea::check(fovea_masks(plan, outs_.data(), outs_.size(), &options, found.data(), found.size(),
                             &count, map_.data(), map_.size()));
    auto instances = std::make_unique<Detections>();
    instances->header = header;
    for (std::size_t i = 0; i < count; i++) {
        const fovea_mask &m = found[i];
        Detection2D one = detection(header, double{m.x1}, double{m.y1}, double{m.x2}, double{m.y2});
        one.id = std::to_string(i + 1);
        one.results[0].hypothesis.class_id = label(m.label);
        one.results[0].hypothesis.score = double{m.score};
        instances->detections.push_back(std::move(one));
    }
    masks_->publish(narrow(header, static_cast<std::uint32_t>(found.size())));
    instances_->publish(std::move(instances));
}

void Results::tell_points(const fovea::plan &plan, const Header &header)
{
    if (!points_ || !points_->get_subscription_count())
        return;
    std::vector<fovea_keypoint> found(about_.keypoints);
    std::size_t count;
    fovea::check(
        fovea_keypoints(plan, outs_.data(), outs_.size(), found.data(), found.size(), &count));
    auto message = std::make_unique<fovea_msgs::msg::KeyPoints>();
    message->header = header;
    message->points.resize(count);
    for (std::size_t i = 0; i < count; i++) {
        const char *name = fovea_model_keypoint(model_, static_cast<std::uint32_t>(i));
        message->points[i].name = name ? name : "";
        message->points[i].x = found[i].x;
        message->points[i].y = found[i].y;
        message->points[i].score = found[i].score;
    }
    points_->publish(std::move(message));
}

} // namespace fovea_ros
