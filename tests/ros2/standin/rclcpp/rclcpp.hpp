/* What fovea_node uses of rclcpp: publishers hand messages to `published`, logs to `logged`. */
#pragma once
#include <any>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
struct rmw_qos_profile_t {
};
namespace rclcpp
{
inline std::function<void(const std::string &)> logged;
template <typename T> inline std::function<void(std::unique_ptr<T>)> published;
namespace exceptions
{
struct InvalidParameterValueException : std::runtime_error {
    using std::runtime_error::runtime_error;
};
} // namespace exceptions
struct SensorDataQoS {
    rmw_qos_profile_t get_rmw_qos_profile() const
    {
        return {};
    }
};
struct NodeOptions {
    std::map<std::string, std::any> overrides;
};
struct Clock {
};
template <typename T> struct Publisher {
    using SharedPtr = std::shared_ptr<Publisher>;
    void publish(std::unique_ptr<T> message)
    {
        published<T>(std::move(message));
    }
};
class Node
{
  public:
    Node(const std::string &, const NodeOptions &options) : options_(options)
    {
    }
    virtual ~Node() = default;
    template <typename T> T declare_parameter(const std::string &name, const T &standard)
    {
        const auto at = options_.overrides.find(name);
        return at == options_.overrides.end() ? standard : std::any_cast<T>(at->second);
    }
    template <typename T>
    typename Publisher<T>::SharedPtr create_publisher(const std::string &, SensorDataQoS)
    {
        return std::make_shared<Publisher<T>>();
    }
    int get_logger() const
    {
        return 0;
    }
    std::shared_ptr<Clock> get_clock()
    {
        return std::make_shared<Clock>();
    }

  private:
    NodeOptions options_;
};
} // namespace rclcpp
#define RCLCPP_WARN_THROTTLE(logger, clock, ms, ...)                                               \
    do {                                                                                           \
        char text[512];                                                                            \
        (void)(logger), (void)(clock), (void)(ms);                                                 \
        std::snprintf(text, sizeof text, __VA_ARGS__);                                             \
        rclcpp::logged(text);                                                                      \
    } while (0)
#define RCLCPP_ERROR_THROTTLE RCLCPP_WARN_THROTTLE
