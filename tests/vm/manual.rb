# frozen_string_literal: true

# What tests/vm/manual asks of the manual pages. In an example
#
#   # COMMAND   is what root types, $ COMMAND what any user does; what a here document takes belongs to the command
#   a line      below it is what it prints. "..." in a line stands for any text, a line that is only "..." for any lines. A command
#               below which there is nothing prints nothing; one below which the first line is an error's fails.
#
# and a block that does not begin with a command is a file.
#
#   manual.rb list PAGE DIR        writes each command of the page into DIR/NNN/{user,command,expected}, each file into DIR/NNN/file
#   manual.rb match EXPECTED GOT   whether what was printed is what was to be

module Manual
  PROMPT = /\A([#$]) (.+)\z/

  module_function

  # The literal blocks of a page that scdoc made.
  def blocks(roff)
    roff.scan(/^\.nf\n\.RS 4\n(.*?)^\.fi\n/m).flatten.map do |block|
      block.gsub("\\&", "").gsub("\\(aq", "'").gsub("\\-", "-").gsub("\\\\", "\\").lines(chomp: true)
    end
  end

  # [[user, command, what it prints]]
  def commands(lines)
    found = []
    lines = lines.dup
    while (line = lines.shift)
      if (prompt = line.match(PROMPT))
        command = [prompt[2]]
        if (word = prompt[2][/<<-?'?(\w+)/, 1])
          command << lines.shift until command.last == word
        end
        found << [prompt[1] == "#" ? "root" : "user", command.join("\n"), []]
      else
        found.last[2] << line
      end
    end
    found
  end

  def list(page, directory)
    entries = blocks(File.read(page)).flat_map { |lines| lines[0].match?(PROMPT) ? commands(lines) : [lines.join("\n")] }
    entries.each_with_index do |entry, i|
      place = File.join(directory, format("%03d", i))
      Dir.mkdir(place)
      if entry.is_a?(String)
        File.write(File.join(place, "file"), "#{entry}\n")
      else
        File.write(File.join(place, "user"), entry[0])
        File.write(File.join(place, "command"), "#{entry[1]}\n")
        File.write(File.join(place, "expected"), entry[2].map { |line| "#{line}\n" }.join)
      end
    end
  end

  def pattern(expected)
    lines = expected.lines(chomp: true).map do |line|
      line.strip == "..." ? "(?:.*\n)*?" : "#{line.rstrip.split("...", -1).map { |part| Regexp.escape(part) }.join(".*")} *\n"
    end
    /\A#{lines.join}\z/
  end

  def match?(expected, got) = pattern(expected).match?(got)
end

case ARGV.shift
when "list" then Manual.list(*ARGV)
when "match" then exit(Manual.match?(*ARGV.map { |file| File.read(file) }))
end
