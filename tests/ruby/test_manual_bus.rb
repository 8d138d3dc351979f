# frozen_string_literal: true

require "open3"
require "rexml/document"
require_relative "test_helper"

# org.ublk(5) is made of dbus/org.ublk.xml: nothing of that is left out, and what is not documented is no page.
class TestManualBus < Minitest::Test
  DIRECTORY = File.expand_path("../../dbus", __dir__)
  XML = File.read(File.join(DIRECTORY, "org.ublk.xml"))

  def page(xml)
    Open3.capture3(RbConfig.ruby, "-w", File.join(DIRECTORY, "manual-page.rb"), "/dev/stdin", File.join(DIRECTORY, "org.ublk.5.scd.in"),
                   stdin_data: xml)
  end

  def whole_page
    out, err, status = page(XML)
    assert_predicate status, :success?, err
    assert_empty err
    out.delete("\\")
  end

  def test_every_member_is_there_with_its_signature
    text = whole_page
    document = REXML::Document.new(XML)

    document.root.get_elements("//method").each do |method|
      directions = %w[in out].map do |direction|
        method.get_elements("arg[@direction='#{direction}']").map { |arg| "#{arg.attributes["type"]} _#{arg.attributes["name"]}_" }.join(", ")
      end
      out = " → (#{directions[1]})" unless directions[1].empty?
      assert_includes text, "\n*#{method.attributes["name"]}*(#{directions[0]})#{out}\n"
    end
    document.root.get_elements("//property").each do |property|
      assert_includes text, "\n*#{property.attributes["name"]}* #{property.attributes["type"]}, "
    end
  end

  # Word by word, but for what the page has another form for.
  def test_every_comment_is_there
    text = whole_page.gsub(/[*_]/, "").split
    words = XML.scan(/<!--(.*?)-->/m).flatten.drop(2).join(" ").gsub(/^ *[\w.]+:/, "").gsub(/@[\w-]+:/, "").gsub(/[*_]/, "").split
    bare = ->(word) { word.downcase.delete(".,:;()") }
    missing = words.map(&bare).uniq - text.map(&bare)

    assert_operator words.size, :>, 1500
    # These are "As org.ublk.Manager....", and "It does not fail."
    assert_equal [], missing - %w[managerdeletedevice managerrestartdevice managerreloaddevice none]
  end

  def refuse(pattern, xml)
    refute_equal XML, xml
    _, err, status = page(xml)
    refute_predicate status, :success?
    assert_match pattern, err
  end

  def test_what_is_not_documented_is_refused
    refuse(/WorkerPID is not documented/, XML.sub(/ *<!-- WorkerPID.*?-->\n/, ""))
    refuse(/ListHooks: who may call it/, XML.sub(/(ListHooks:.*?\n) *@access: anyone\n/, "\\1"))
    refuse(/no error is NoSuchThing/, XML.sub("@errors: NoSuchDevice,", "@errors: NoSuchThing,"))
    refuse(/has no devise/, XML.sub("@device:", "@devise:"))
    refuse(/about something else/, XML.sub("<!-- Node:", "<!-- Knode:"))
  end
end
