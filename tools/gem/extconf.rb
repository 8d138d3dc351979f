# frozen_string_literal: true

# Builds ublk.so of the gem. Whatever is missing is named together with the package that has it.

require "mkmf"

# Each library: a call that it must have, the version that brought it, and what to install.
LIBRARIES = {
  "uring" => ["liburing 2.3", "liburing.h", "struct io_uring r; return io_uring_submit_and_get_events(&r);",
              "liburing-dev (Debian, Ubuntu), liburing-devel (Fedora) or liburing (Arch)"],
  "jansson" => ["jansson 2.13", "jansson.h", "json_t *j = json_object(); json_decref(j); return 0;",
                "libjansson-dev (Debian, Ubuntu), jansson-devel (Fedora) or jansson (Arch)"]
}.freeze

unless RbConfig::CONFIG["host_os"].start_with?("linux")
  abort "ublk needs Linux, with the kernel's ublk driver: it can't be built on #{RbConfig::CONFIG["host_os"]}."
end

LIBRARIES.each do |library, (version, header, body, packages)|
  next if checking_for(version) { try_link("#include <#{header}>\nint main(void) { #{body} }\n", "-l#{library}") }

  abort "ublk needs #{version} or later with its header file <#{header}>, which was not found: install #{packages} " \
        "and try again."
end

$libs = "-luring -ljansson -lpthread #{$libs}" # rubocop:disable Style/GlobalVars: how mkmf is told
$CFLAGS << " -std=gnu17 -fvisibility=hidden -fno-strict-aliasing"
$CPPFLAGS << " -I$(srcdir) -D_GNU_SOURCE -DHOOK_LIBRARY_DIRECTORY='\"/usr/lib/ublk-ruby/ruby\"'"
$warnflags = "-Wall -Wextra -Wno-missing-field-initializers"

folders = %w[service hooks hooks/native]
$srcs = folders.flat_map { |folder| Dir.glob("#{folder}/*.c", base: __dir__).sort }
$VPATH.concat(folders.map { |folder| "$(srcdir)/#{folder}" })

create_makefile("ublk")
