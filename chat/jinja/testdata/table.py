"""Prints what jinja2, set up as transformers does it for chat templates, makes of small templates.

python table.py > answers.json
"""
import datetime
import json

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime.datetime(2026, 11, 9, 7, 8, 9)
VARIABLES = json.loads(
    '{"n": 3, "f": 2.5, "big": 1e20, "small": 1e-7, "s": " Hello, World! ", "e": "", "t": true, "z": null, "u": "é😀\\u0007\\u00a0\'\\"\\\\\\n", "list": [1, "two", 3.0, null, [true]], "none": [],'
    ' "d": {"b": 1, "a": {"x": "y<&>"}, "items": 7, "C": [1, 2]}, "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": " U\\n", "n": 2}, {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"q": "é", "k": [1, {}]}}}]}]}'
)

TEMPLATES = r'''
{{ n }} {{ f }} {{ big }} {{ small }} {{ 1.0 }} {{ 100000000000000000.0 }} {{ 0.0001 }} {{ 1e300 * 1e300 }} {{ 9999999999999998.0 }} {{ 1e16 }} {{ 0.00001 }} {{ 123456.789 }}
{{ s }}|{{ s | trim }}|{{ s.strip() }}|{{ s.strip(' !') }}|{{ s.lstrip() }}|{{ s.rstrip('! ') }}|{{ s | trim('! H') }}
{{ t }} {{ z }} {{ e }} {{ missing }} {{ list }} {{ d }} {{ u }} {{ [u] }} {{ ("a",) }} {{ (1, 2) }} {{ {} }} {{ ['"', "'", '\'"'] }}
{{ 'a\tb\n\x41\u00e9\q\\' }} {{ "a" "b" }}
{{ 1 + 2 * 3 - 4 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 6 / 2 }} {{ 2.5 + 1 }} {{ -n }} {{ +n }} {{ true + 1 }} {{ 'ab' * 3 }} {{ [1] + [2] }}
{{ 'a' ~ 1 ~ none ~ true ~ 2.0 ~ [1] }} {{ 1 ~ (2 + 3) }} {{ 'a' + 'b' ~ 'c' }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 'a' < 'b' }} {{ 1 == 1.0 }} {{ true == 1 }} {{ '1' == 1 }} {{ none == none }} {{ [1, 2] == [1, 2.0] }} {{ {'a': 1} == {'a': 1} }} {{ (1,) == [1] }} {{ n >= 3 }} {{ n != 3 }} {{ missing == missing }}
{{ 'l' in s }} {{ 'x' not in s }} {{ 2 in [1, 2] }} {{ 'b' in d }} {{ 'z' in d }} {{ 1 in missing }} {{ none in list }} {{ not 'x' in s }}
{{ 1 and 2 }} {{ 0 and 2 }} {{ 0 or 'x' }} {{ e or z or 5 }} {{ not e }} {{ not 1 and 0 }} {{ missing or 'd' }} {{ (missing and 1) is defined }}
{{ 'a' if t else 'b' }} {{ 'a' if e else 'b' }} {{ 'a' if e }}| {{ 1 if e else 2 if z else 3 }} {{ ('x' if e) is defined }}
{{ list[0] }} {{ list[-1] }} {{ list[9] }} {{ list[1:] }} {{ list[:-1] }} {{ list[::-1] }} {{ list[1:4:2] }} {{ list[-2:] }} {{ list[10:] }} {{ s[1:6] }} {{ s[::-1] }} {{ list[:0] }} {{ list[4:1:-1] }} {{ (1, 2, 3)[1:] }} {{ u[1] }}
{{ d.b }} {{ d['b'] }} {{ d.a.x }} {{ d['a']['x'] }} {{ d.zz }} {{ d['zz'] }} {{ d['items'] }} {{ d.get('b') }} {{ d.get('zz') }} {{ d.get('zz', 5) }} {{ messages[1].content }} {{ messages[0]['role'] }} {{ d.zz is defined }} {{ s.foo is defined }}
{{ d | tojson }} {{ list | tojson }} {{ u | tojson }} {{ u | tojson(ensure_ascii=true) }} {{ z | tojson }} {{ f | tojson }} {{ big | tojson }} {{ [] | tojson }} {{ {} | tojson }} {{ d | tojson(sort_keys=true) }}
{{ d | tojson(indent=2) }} {{ [] | tojson(indent=2) }} {{ [[], {}] | tojson(indent=4) }} {{ list | tojson(separators=(',', ':')) }} {{ list | tojson(indent=0) }} {{ (1, 2) | tojson }}
{{ list | length }} {{ s | length }} {{ d | count }} {{ u | length }} {{ none_ | length }} {{ messages | length - 1 }}
{{ missing | default('x') }} {{ e | default('x') }} {{ e | default('x', true) }} {{ z | default('x') }} {{ z | default('x', boolean=true) }} {{ missing | d }}|
{{ list | join(', ') }} {{ ['a', 'b'] | join }} {{ messages | join('-', attribute='role') }} {{ ', '.join(['x', 'y']) }} {{ d | join('+') }} {{ 'abc' | join('.') }}
{{ s | upper }} {{ s | lower }} {{ s.upper() }} {{ 'ÄÖ' | lower }} {{ s | replace('l', 'L') }} {{ s.replace('o', '') }} {{ 'abc'.find('c') }} {{ 'abc'.find('z') }} {{ 5 | string + '1' }} {{ n | string }} {{ '7' + f | string }}
{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a,b,c'.split(',', 1) }} {{ ''.split(',') }} {{ ''.split() }} {{ 'a</t>b</t>c'.split('</t>')[-1] }} {{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'c')) }} {{ 'abc'.startswith('') }}
{{ list | first }} {{ list | last }} {{ 'abc' | first }} {{ [] | first is defined }} {{ 'abc' | list }} {{ d | list }} {{ [3, 1, 2] | sort }} {{ ['b', 'A', 'c'] | sort }} {{ ['b', 'A'] | sort(case_sensitive=true) }} {{ [1, 3, 2] | sort(reverse=true) }} {{ [1, 2] | reverse | list }} {{ 3.7 | int }} {{ true | int }}
{{ [1, 0, 2, none] | select | list }} {{ [1, 2, 3] | select('odd') | list }} {{ [1, 2] | reject('equalto', 2) | list }} {{ messages | selectattr('role', 'equalto', 'user') | list | length }} {{ messages | selectattr('tool_calls') | list | length }} {{ messages | rejectattr('n', 'defined') | map(attribute='role') | join(' ') }} {{ ['a', 'b'] | map('upper') | list }} {{ ['a'] | select('in', ['a']) | list }}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %} {% for k in d %}{{ k }}{% endfor %} {% for k, v in d | items %}{{ k }}{% endfor %} {% for k, v in d | dictsort %}{{ k }}{% endfor %} {% for k in d.keys() %}{{ k }}{% endfor %} {% for v in d.values() %}{{ v }}{% endfor %} {{ d.keys() | list }} {{ d.items() | length }}
{{ t is defined }} {{ missing is undefined }} {{ missing is not defined }} {{ z is none }} {{ z is not none }} {{ s is string }} {{ n is number }} {{ t is number }} {{ f is float }} {{ n is integer }} {{ t is integer }} {{ t is boolean }} {{ d is mapping }} {{ list is iterable }} {{ s is iterable }} {{ n is iterable }} {{ list is sequence }} {{ d is sequence }} {{ missing is sequence }} {{ t is true }} {{ n is true }} {{ e is false }} {{ n is odd }} {{ n is even }} {{ n is eq 3 }} {{ n is equalto(3) }} {{ n is in [1, 3] }} {{ n is gt 2 }} {{ n is ne 3 }}
{{ d.items() is sequence }} {{ range(3) is sequence }} {{ (list | map('string')) is sequence }} {{ (list | map('string')) is iterable }} {% set g = list | map('string') %}{{ g is iterable }}{{ g | list }} {{ u[::2] }} {{ u[-3:] }} {{ u[3:1] }} {{ (u | safe)[1] }} {{ u | first }}{{ u | last }} {{ 'aéa' | trim('éa') }}
{{ not missing is defined }} {{ not t is defined or 1 }} {{ n is defined and n is number }} {{ n + 1 is number }}
{% for x in list %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.previtem is defined }}{{ loop.nextitem }};{% endfor %}
{% for x in [1, 2, 3, 4] if x is even %}{{ x }}{{ loop.index }}{{ loop.last }}{% else %}no{% endfor %} {% for x in [] %}{{ x }}{% else %}no{% endfor %} {% for x in missing %}{{ x }}{% else %}none{% endfor %} {% for c in 'añ' %}{{ c }}-{% endfor %}
{% for x in range(5) %}{% if x == 1 %}{% continue %}{% endif %}{% if x == 3 %}{% break %}{% endif %}{{ x }}{% endfor %} {% for i in range(3, 0, -1) %}{{ i }}{% endfor %} {% for a, b in [(1, 2), [3, 4]] %}{{ a }}{{ b }}{% endfor %}
{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }} {% if true %}{% set y = 2 %}{% endif %}{{ y }} {% set a, b = 1, 2 %}{{ a }}{{ b }} {% set p = 1, 2 %}{{ p }} {% set q %}x{{ n }}{% endset %}[{{ q }}]
{% set ns = namespace(a=1, b='x') %}{% for i in [1, 2] %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c is defined }} {% set ns = namespace() %}{% set ns.q = [] %}{% set ns.q = ns.q + [1] %}{{ ns.q }} {% set m = namespace({'k': 1}) %}{{ m.k }}
{% macro m(a, b='B', c=a) %}<{{ a }}{{ b }}{{ c }}>{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(1, c=3) }}{{ m() }} {{ m('x') | upper }} {% macro deep(n) %}{{ n }}{% if n > 0 %}{{ deep(n - 1) }}{% endif %}{% endmacro %}{{ deep(5) }} {% set v = 'late' %}{% macro w() %}{{ v }}{% endmacro %}{{ w() }}
{% for m in messages %}{{ '<' + m['role'] + '>' + (m['content'] or '') | trim }}{% if m.tool_calls %}{% for c in m.tool_calls %}{{ c.function | tojson }}{{ c.function.arguments.k[0] }}{% endfor %}{% endif %}{% endfor %}
{{ '<b>' | safe }} {{ ('<b>' | safe) + '<i>' }} {{ '<i>' + ('<b>' | safe) }} {{ ('<b>' | safe) ~ '<i>' }} {{ ('<b>' | safe) is string }} {{ [('x' | safe)] | tojson }} {{ (' <b> ' | safe | trim) + '<' }}
{{ strftime_now('%d %b %Y %Y-%m-%d %H:%M:%S %A %a %B %y %j %I %p %%') }}
{# comment #}a{#- c -#}  b {#- c #} c
  {% if t %}
 kept
    {% endif %}
 x {% if t %} y {% endif %} z
  {{ n }}
  {%- if t %} tight {%- endif %}  after
  {%+ if t %} plus {% endif +%}
 end {{- n -}}   tight   {%- set x = 1 -%}

  last
{% if e %}1{% elif z %}2{% elif t %}3{% else %}4{% endif %}{% if e %}{% else %}5{% endif %}
{{ {'a': 1, 'b': [1, {'c': 2}]}['b'][1].c }} {{ {'a': 1}.a }} {{ ({'x': 1}).x }} {{ [1, 2,] }} {{ "}}" }} {{ '%}' }} {{ {'k': {'j': 1}} }}
{% generation %}gen {{ n }}{% endgeneration %} {{ dict(a=1)['a'] }} {{ dict({'b': 2}, c=3) }}
{{ -1 | string }} {{ (-3) | string }} {{ 1 - -1 }} {{ 2 * -3 }} {{ not not t }} {{ (n - 1) * 2 }} {{ 10 % 4 * 2 }} {{ 3 in [1] + [3] }}
{{ raise_exception('stop ' + s) }}
{{ missing.x }}
{{ missing['x'] }}
{{ missing + 'x' }}
{{ 'x' + 1 }}
{{ 1 + 'x' }}
{{ none.x.y }}
{{ list | join(missing.x) }}
{{ n | length }}
{{ [1] | select('odd') | length }}
{{ [1] | map('upper') | tojson }}
{% for x in n %}{% endfor %}
{{ s() }}
{{ undefined_function(1) }}
{{ 1 < 'a' }}
{{ 1 in 'a' }}
{{ 1 / 0 }}
{{ d | tojson(indent='x') }}
{{ messages.append(1) }}
{% set d.x = 1 %}
{{ 'a' * 3 * 'b' }}
{% if %}{% endif %}
{% for in x %}{% endfor %}
{% endif %}
{% if t %}
{{ 'unclosed }}
{{ (1 }}
{{ 1 2 }}
{{ x | }}
{{ a..b }}
'''

# Templates of several lines are those that begin or go on with a space.
LINES = TEMPLATES.strip("\n").split("\n")
SOURCES = []
for line in LINES:
    if SOURCES and (line.startswith(" ") or line == ""):
        SOURCES[-1] += "\n" + line
    else:
        SOURCES.append(line)

SOURCES += ["  {% if t %}\n a\n  {% endif %}\nb\n", "  {{ n }}\n\n", "{% if t %}\n  {% if t %}x{% endif %}\n  {# c #}\n{% endif %}\r\ny\rz\n", "a {% if t %}\n  {% endif %}"]


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
environment.filters["tojson"] = tojson
environment.globals.update(raise_exception=raise_exception, strftime_now=NOW.strftime)

rows = []
for source in SOURCES:
    row = {"template": source}
    try:
        row["text"] = environment.from_string(source).render(**VARIABLES)
    except Exception as e:
        row["error"] = type(e).__name__ + ": " + str(e)
    rows.append(json.dumps(row, ensure_ascii=False))
print('{"jinja2": "%s", "now": "%s", "variables": %s, "rows": [\n%s\n]}' % (jinja2.__version__, NOW.isoformat(), json.dumps(VARIABLES, ensure_ascii=False), ",\n".join(rows)))
