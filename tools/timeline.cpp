#include "timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "text_table.hpp"

namespace tessera::tools {
namespace {

using Interval = std::pair<double, double>;

/// Overlapping and touching intervals merged, in order.
std::vector<Interval> merged(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end());
  std::vector<Interval> result;
  for (const Interval& interval : intervals) {
    if (!result.empty() && interval.first <= result.back().second) {
      result.back().second = std::max(result.back().second, interval.second);
    } else {
      result.push_back(interval);
    }
  }
  return result;
}

double total(const std::vector<Interval>& intervals) {
  double sum = 0;
  for (const Interval& interval : intervals) sum += interval.second - interval.first;
  return sum;
}

template <class Select>
std::vector<Interval> busy(const DeviceRows& device, double call_us, Select select) {
  std::vector<Interval> intervals;
  for (const StreamRow& stream : device.streams) {
    if (!select(stream)) continue;
    for (const Span& span : stream.spans) {
      const Interval inside{std::clamp(span.begin_us, 0.0, call_us), std::clamp(span.end_us, 0.0, call_us)};
      if (inside.second > inside.first) intervals.push_back(inside);
    }
  }
  return merged(std::move(intervals));
}

bool computes(const StreamRow& stream) { return stream.computes; }
bool any(const StreamRow&) { return true; }

// Colours that print well and that colour-blind people can distinguish (Okabe and Ito).
constexpr const char* compute_colour = "#009E73";
constexpr const char* up_colour = "#0072B2";
constexpr const char* down_colour = "#D55E00";
constexpr const char* peer_colour = "#CC79A7";
constexpr const char* to_peer_colour = "#E69F00";
constexpr const char* other_colour = "#DDDDDD";

const char* colour_of(const StreamRow& stream) {
  if (stream.computes) return compute_colour;
  if (stream.name == "up") return up_colour;
  if (stream.name == "down") return down_colour;
  return stream.name == "to peer" ? to_peer_colour : peer_colour;
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

/// 1, 2 or 5 times a power of ten, so that there are about ten steps.
double tick_us(double length_us) {
  double step = 1e-3;
  for (int i = 0; step * 10 < length_us; ++i) step *= i % 3 == 1 ? 2.5 : 2;
  return step;
}

/// A picture of a call in SVG, drawn from the top to the bottom.
class Drawing {
 public:
  explicit Drawing(const Timeline& timeline) : timeline_(timeline), length_us_(std::max(timeline.length_us, 1e-3)) {}

  std::string svg() {
    text(left, 20, fmt::format("{}: {} ms", timeline_.call, three_digits(1e-3 * timeline_.length_us)), "start");
    draw_streams();
    draw_axis();
    draw_shares();
    draw_key();
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
        "{1:.0f}\" "
        "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" "
        "fill=\"white\"/>\n{2}</svg>\n",
        left + width + 30, y_ + 24, body_);
  }

 private:
  static constexpr double left = 150, width = 1000, row = 18, top = 34;

  double x(double us) const { return left + std::clamp(us / length_us_, 0.0, 1.0) * width; }
  void text(double at_x, double at_y, const std::string& words, const char* anchor) {
    body_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", at_x, at_y, anchor,
                         escaped(words));
  }
  void bar(double from_us, double to_us, const char* colour, const std::string& title) {
    body_ += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"{}\"><title>{}</title></rect>\n",
        x(from_us), y_, std::max(x(to_us) - x(from_us), 0.3), row - 4, colour, escaped(title));
  }

  /// A row for each stream of each device.
  void draw_streams() {
    for (const DeviceRows& device : timeline_.devices) {
      for (const StreamRow& stream : device.streams) {
        text(left - 8, y_ + row - 7, device.name + " " + stream.name, "end");
        for (const Span& span : stream.spans) {
          bar(span.begin_us, span.end_us, colour_of(stream),
              fmt::format("{}: {} to {} ms", span.name, three_digits(1e-3 * span.begin_us),
                          three_digits(1e-3 * span.end_us)));
        }
        y_ += row;
      }
      y_ += 6;
    }
  }

  /// Lines through the rows above.
  void draw_axis() {
    for (int i = 0; i * tick_us(length_us_) <= length_us_; ++i) {
      const double at_us = i * tick_us(length_us_);
      body_ += fmt::format("<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\" stroke=\"#BBBBBB\"/>\n",
                           x(at_us), top, y_);
      text(x(at_us), y_ + 12, three_digits(1e-3 * at_us), "middle");
    }
    text(left - 8, y_ + 12, "ms", "end");
    y_ += 30;
  }

  /// A row for each device: the shares of the call's time.
  void draw_shares() {
    for (const DeviceRows& device : timeline_.devices) {
      const SharesOfTime shares = device.shares(timeline_.length_us);
      text(left - 8, y_ + row - 7, device.name, "end");
      double at_us = 0;
      const auto share = [&](double us, const char* what, const char* colour) {
        bar(at_us, at_us + us, colour, fmt::format("{}: {}", what, percent_text(us, length_us_)));
        at_us += us;
      };
      share(shares.compute_us, "kernels", compute_colour);
      share(shares.transfer_us, "copies alone", up_colour);
      share(shares.other_us, "neither", other_colour);
      y_ += row;
    }
    y_ += 14;
  }

  /// The meanings of the colours.
  void draw_key() {
    double at = left;
    for (const auto& [name, colour] : {std::pair{"kernels", compute_colour},
                                       {"up, or copies alone", up_colour},
                                       {"down", down_colour},
                                       {"from a peer", peer_colour},
                                       {"to a peer", to_peer_colour},
                                       {"neither", other_colour}}) {
      body_ +=
          fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"12\" height=\"12\" fill=\"{}\"/>\n", at, y_, colour);
      text(at + 16, y_ + 10, name, "start");
      at += 160;
    }
  }

  const Timeline& timeline_;
  double length_us_;
  std::string body_;
  double y_ = top;  ///< of the next row
};

}  // namespace

LostTime DeviceRows::lost_time(double call_us) const {
  const std::vector<Interval> kernels = busy(*this, call_us, computes);
  if (kernels.empty()) return {.tail_us = call_us};
  LostTime time{
      .start_up_us = kernels.front().first, .compute_us = total(kernels), .tail_us = call_us - kernels.back().second};
  time.waiting_us = call_us - time.start_up_us - time.compute_us - time.tail_us;
  return time;
}

SharesOfTime DeviceRows::shares(double call_us) const {
  const double compute_us = total(busy(*this, call_us, computes));
  const double used_us = total(busy(*this, call_us, any));
  return {compute_us, used_us - compute_us, call_us - used_us};
}

Timeline read_timeline(const nlohmann::json& events, std::size_t number) {
  std::vector<const nlohmann::json*> calls;
  std::map<int, DeviceRows> devices;
  std::map<std::pair<int, int>, std::string> streams;
  for (const nlohmann::json& event : events) {
    const std::string& kind = event.at("ph").get_ref<const std::string&>();
    const int pid = event.at("pid");
    if (kind == "M") {
      const std::string name = event.at("args").at("name");
      if (event.at("name") == "process_name" && pid != 0) devices[pid].name = name;
      if (event.at("name") == "thread_name") streams[{pid, event.at("tid")}] = name;
    } else if (kind == "X" && pid == 0) {
      calls.push_back(&event);
    }
  }
  if (calls.empty()) throw std::runtime_error("there is no call in it");
  if (number > calls.size()) throw std::runtime_error(fmt::format("there are only {} calls in it", calls.size()));
  const nlohmann::json& call = *calls[(number == 0 ? calls.size() : number) - 1];
  const double begin_us = call.at("ts");
  const nlohmann::json& sizes = call.at("args");
  Timeline timeline;
  timeline.length_us = call.at("dur");
  timeline.call = fmt::format("{} {} x {} x {}", call.at("name").get<std::string>(), sizes.at("m").get<long>(),
                              sizes.at("n").get<long>(), sizes.at("k").get<long>());

  std::map<std::pair<int, int>, StreamRow> rows;
  for (const nlohmann::json& event : events) {
    if (event.at("ph") != "X" || event.at("pid") == 0) continue;
    const double at_us = event.at("ts").get<double>() - begin_us;
    // The clocks of events differ from the host's by some microseconds.
    constexpr double slack_us = 100;
    if (at_us < -slack_us || at_us > timeline.length_us + slack_us) continue;
    const std::pair<int, int> place{event.at("pid"), event.at("tid")};
    StreamRow& row = rows[place];
    row.name = streams[place];
    row.computes = row.name.rfind("compute", 0) == 0;
    row.spans.push_back({at_us, at_us + event.at("dur").get<double>(), event.at("name")});
  }
  for (auto& [place, row] : rows) {
    std::sort(row.spans.begin(), row.spans.end(), [](const Span& a, const Span& b) { return a.begin_us < b.begin_us; });
    devices[place.first].streams.push_back(std::move(row));
  }
  for (auto& [pid, device] : devices) timeline.devices.push_back(std::move(device));
  return timeline;
}

std::string draw_svg(const Timeline& timeline) { return Drawing(timeline).svg(); }

}  // namespace tessera::tools
