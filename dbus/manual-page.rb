# frozen_string_literal: true

# manual-page.rb org.ublk.xml org.ublk.5.scd.in: prints the source of org.ublk(5). What the XML says stands in place of
# @DESCRIPTION@ (its first comment), @org.ublk.Manager@ and @org.ublk.Device@ (an interface). Comments of the XML are
#
#   Name: text            of the member, property or interface that follows; "as Manager.Other" is all that it needs
#   @argument: text       of a method; each may have a line of its own, or the text is about all of them
#   @access: anyone, or polkit's actions;  @errors: names, or none
#   paragraphs; and lists, each line of which is a term, two spaces or more, and its text
#
# where a line that stands further in goes on with the one before. What does not fit is an error, not a bad page.

require "rexml/document"

# Text of a comment, as scdoc wants it.
module Scdoc
  module_function

  def text(words)
    words = words.gsub(/[\\_*]/) { "\\#{_1}" }.gsub(/\b(?:[a-z][a-z.-]*)(?=\(\d\))/) { "*#{_1}*" }
    words.start_with?("#", "-", ".", ";", "|", ":", "[", "]") ? "\\#{words}" : words
  end

  def list(entries) = entries.map { |term, text| "*#{text(term)}*\n\t#{text(text.empty? ? "." : text)}\n\n" }.join
end

# A comment, cut into paragraphs, each without the indentation that all its lines share.
class Comment
  attr_reader :paragraphs

  def initialize(string)
    lines = string.lines(chomp: true)
    margin = lines.drop(1).reject { |line| line.strip.empty? }.map { |line| line[/\A */].size }.min || 0
    lines = [lines[0].strip, *lines.drop(1).map { |line| line[margin..].to_s.rstrip }]
    @paragraphs = lines.slice_when { |a, b| a.empty? != b.empty? }.reject { |part| part.all?(&:empty?) }
    @paragraphs.each { |part| part.shift if part[0].empty? }
    @paragraphs.reject!(&:empty?)
  end

  # [[text, what stands at the beginning of its line]]: lines that stand further in are put together with the one before
  def self.entries(lines)
    margin = lines.map { |line| line[/\A */].size }.min
    lines.slice_before { |line| line[/\A */].size == margin }.map { |entry| entry.map(&:strip) }
  end

  def self.list?(lines) = lines.any? { |line| line.match?(/\A *\S.*?\S {2,}\S/) }

  def self.render(lines)
    return "#{Scdoc.text(lines.map(&:strip).join(" "))}\n\n" unless list?(lines)

    Scdoc.list(entries(lines).map { |first, *rest|
      term, text = first.split(/ {2,}/, 2)
      [term, [text, *rest].compact.join(" ")]
    })
  end
end

# A method or a property, and what the comment before it says.
class Member
  def initialize(element)
    @element = element
    @name = element.attributes["name"]
    comment = element.previous_sibling
    comment = comment.previous_sibling while comment.is_a?(REXML::Text)
    raise "#{@name} is not documented" unless comment.is_a?(REXML::Comment)

    @paragraphs = Comment.new(comment.string).paragraphs
    head, notes = split(@paragraphs.shift)
    @summary = head.join(" ")[/\A#{@name}:? ?(.*)\z/, 1] or raise "The comment before #{@name} is about something else"
    @notes = notes.to_h { |note| note.join(" ").match(/\A@([\w-]+): ?(.*)\z/).captures }
  end

  def method? = @element.name == "method"

  def to_s = method? ? method_text : property_text

  private

  # The first paragraph: the name with the text behind it, and the @notes. A list right below the name is a paragraph of its own.
  def split(lines)
    head = lines.take_while { |line| !line.start_with?("@") }
    notes = lines.drop(head.size)
    notes = Comment.entries(notes) unless notes.empty?
    @paragraphs.unshift(head.slice!(1..)) if Comment.list?(head.drop(1))
    [head.map(&:strip), notes]
  end

  def arguments(direction)
    @element.get_elements("arg[@direction='#{direction}']").map do |arg|
      "#{arg.attributes["type"]} _#{arg.attributes["name"].gsub("_", "\\_")}_"
    end.join(", ")
  end

  def described(name) = @notes.delete(name)

  def method_text
    out = arguments("out")
    text = "## #{@name}\n\n*#{@name}*(#{arguments("in")})#{" → (#{out})" unless out.empty?}\n\n"
    access, errors = described("access"), described("errors")
    text += paragraph(@summary)
    @element.get_elements("arg").each do |arg|
      note = described(arg.attributes["name"])
      text += "_#{arg.attributes["name"]}_\n\t#{Scdoc.text(note)}\n\n" if note
    end
    raise "#{@name} has no #{@notes.keys.join(", ")}" unless @notes.empty?

    text += body
    return text if @summary.start_with?("as Manager.")
    raise "#{@name}: who may call it, and how does it fail?" unless access && errors

    text + "Who may: #{Scdoc.text(access)}. #{failures(errors)}\n\n"
  end

  def failures(errors)
    return "It does not fail." if errors == "none"

    unknown = errors.split(", ") - ERRORS
    raise "#{@name}: no error is #{unknown.join(", ")}" unless unknown.empty?

    "Errors: #{errors}."
  end

  def property_text
    constant = @element.get_elements("annotation").any? { |annotation| annotation.attributes["value"] == "const" }
    lists, prose = @paragraphs.partition { |lines| Comment.list?(lines) }
    raise "#{@name}: a property has no prose below its list" unless prose.empty?

    "*#{@name}* #{@element.attributes["type"]}, #{constant ? "never changes" : "emits PropertiesChanged"}\n\t#{Scdoc.text(@summary)}\n" +
      lists.map { |lines| "\n#{Comment.entries(lines).map { |first, *rest| item(first, rest) }.join}" }.join + "\n"
  end

  # One state of State.
  def item(first, rest)
    term, text = first.split(/ {2,}/, 2)
    "\t- *#{Scdoc.text(term)}*#{": #{Scdoc.text([text, *rest].join(" "))}" if text}\n"
  end

  def body = @paragraphs.map { |lines| Comment.render(lines) }.join

  def paragraph(text) = text.empty? ? "" : "#{Scdoc.text(sentence(text))}\n\n"

  def sentence(text) = text.sub(/\A[a-z]/, &:upcase).sub("As Manager.", "As org.ublk.Manager.")
end

document = REXML::Document.new(File.read(ARGV.fetch(0)))
first = Comment.new(document.children.grep(REXML::Comment).find { |c| c.string.include?("D-Bus API") }.string)
# The names of errors are the terms of the lists in the first comment.
ERRORS = first.paragraphs.select { |lines| Comment.list?(lines) }
              .flat_map { |lines| Comment.entries(lines).map { |entry| entry[0][/\A\w+/] } }.freeze

def interface(element)
  comment = element.previous_sibling
  comment = comment.previous_sibling while comment.is_a?(REXML::Text)
  about = Comment.new(comment.string.sub(/\A\s*[\w.]+: (\w)/) { $1.upcase }).paragraphs.map { |lines| Comment.render(lines) }
  methods, properties = element.get_elements("method | property").map { |member| Member.new(member) }.partition(&:method?)
  [*about, *methods, "## Properties\n\n", *properties].join
end

page = File.read(ARGV.fetch(1)).gsub(/^@([\w.]+)@\n/) do
  if $1 == "DESCRIPTION"
    first.paragraphs.map { |lines| Comment.render(lines) }.join
  else
    interface(document.root.get_elements("interface[@name='#{$1}']").fetch(0))
  end
end
print page
