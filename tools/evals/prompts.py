"""The 24 prompts of the divergence eval: facts, arithmetic, code, lists and prose, short and longer."""

from __future__ import annotations

__all__ = ["GREEDY_PROMPTS"]

GREEDY_PROMPTS: tuple[str, ...] = (
    "What is the capital of Norway, and on which fjord does it lie?",
    "Name the planets of the solar system in order, starting from the Sun.",
    "Who wrote Pride and Prejudice, and in which century?",
    "Explain in two sentences why the sky is blue.",
    "What happens to water when it is cooled below its freezing point?",
    "In which year did people first walk on the Moon? Say who they were.",
    "What is 17 plus 25? Show the steps.",
    "A train travels 120 kilometres in one and a half hours. What is its average speed?",
    "If three pencils cost 45 cents, how much do eight pencils cost? Think step by step.",
    "Count down from ten to one, separated by commas.",
    "What is the next number in the series 2, 4, 8, 16, and why?",
    "Convert 25 degrees Celsius to Fahrenheit and give the formula.",
    "Write a Python function that returns the sum of the even numbers in a list.",
    "Write a SQL query that counts the orders of each customer in a table called orders.",
    "Explain what this shell command does: ls -l | sort -k5 -n | tail -3",
    'Correct the mistake in this Python line and say what was wrong: print("hello)',
    "List five fruits and the colour of each, one a line.",
    "Give three tips for writing a clear e-mail, as a numbered list.",
    "Make a shopping list for a vegetable soup for four people.",
    "List the days of the week in reverse order.",
    "Write a short story of four sentences about a lighthouse keeper and a lost boat.",
    "Rewrite politely: Send me the report now, it is already late and I am tired of waiting.",
    "Summarise in one sentence: The library opened in 1902 as a gift of a merchant. It burned down twice, in 1931 and "
    "in 1958, and each time the town rebuilt it with donations. Today it lends books, tools and musical instruments, "
    "and its reading room is open at night for students.",
    "A friend asks whether to learn the piano or the guitar first. She has a small flat, thin walls and little money, "
    "but she loves classical music and already sings in a choir. Weigh the two and give one recommendation.",
)
"""Never change one: an answer is stored under the digest of its prompt, and is only comparable under the same."""
