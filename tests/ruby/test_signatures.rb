# frozen_string_literal: true

gem "rbs"
require "rbs"
require_relative "test_helper"

# That hooks/sig says of each method what the library says: which arguments it takes.
class TestSignatures < Minitest::Test
  def environment
    loader = RBS::EnvironmentLoader.new
    loader.add(path: Pathname(ROOT) / "hooks/sig")
    RBS::Environment.from_loader(loader).resolve_type_names
  end

  # [what, the method as the library has it, its type]; of what needs the worker or a kernel there is none.
  def methods
    declared.flat_map do |name, members|
      owner = constant(name.to_s) or next []
      members.grep(RBS::AST::Members::MethodDefinition).filter_map do |member|
        method = find(owner, member)
        ["#{name}#{member.singleton? ? "." : "#"}#{member.name}", method, member] if method&.source_location
      end
    end
  end

  def declared
    environment.class_decls.filter_map do |name, entry|
      [name, entry.decls.flat_map { |one| one.decl.members }] if name.to_s.start_with?("::UBLK")
    end
  end

  def constant(name)
    Object.const_get(name)
  rescue NameError, LoadError
    nil
  end

  def find(owner, member)
    member.singleton? ? owner.method(member.name) : owner.instance_method(member.name)
  rescue NameError
    nil
  end

  # Of a method: [required, optional] positional arguments, and all keywords.
  def taken(method)
    kinds = method.parameters.group_by(&:first).transform_values { |list| list.map(&:last) }
    [kinds.fetch(:req, []).size, kinds.fetch(:opt, []).size, [*kinds[:key], *kinds[:keyreq]].sort]
  end

  def said(type)
    function = type.type
    [function.required_positionals.size + function.trailing_positionals.size, function.optional_positionals.size,
     [*function.optional_keywords.keys, *function.required_keywords.keys].sort]
  end

  def types(member) = member.respond_to?(:overloads) ? member.overloads.map(&:method_type) : member.types

  # A method that takes whatever there is passes it on.
  def passes_on?(method) = method.parameters.any? { |kind, _| %i[rest keyrest].include?(kind) }

  def test_arguments
    checked = methods.reject { |_, method, _| passes_on?(method) }
    assert_operator checked.size, :>, 150
    wrong = checked.reject { |_, method, member| types(member).any? { |type| said(type) == taken(method) } }
    assert_empty(wrong.map { |what, method, member| "#{what}: #{taken(method)}, not #{types(member).map { |type| said(type) }}" })
  end
end
